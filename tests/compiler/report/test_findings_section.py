import re

from tests.support.report_pages import HOSTILE, branch, contents, found, text_of
from turnstile.compiler.finding import Finding
from turnstile.compiler.report.findings_section import MOST, findings_section
from turnstile.compiler.report.placed import placed_sequences, sequences_by_finding


def section(*findings: Finding) -> str:
    placed = placed_sequences(contents(branch(1, [1, 2]), branch(2, [3, 4]), findings=list(findings)))
    return findings_section(findings, placed, sequences_by_finding(placed))


def test_errors_come_first_and_a_kind_that_is_frequent_before_a_rare_one() -> None:
    made = section(found("a"), found("b"), found("b"), found("c", severity="error"))
    assert re.findall(r"<h3>(\w)</h3>", made) == ["c", "b", "a"]
    assert re.findall(r'id="(finding-[^"]+)"', made) == [
        "finding-error-c",
        "finding-warning-b",
        "finding-warning-a",
    ]


def test_a_finding_says_where_it_stands_and_leads_to_its_sequence() -> None:
    made = section(found("aborted", 2, choice=0, message="broken off"), found("log_torn", offset=None))
    assert "broken off a.tslog, offset 12, exchange e2, choice 0. Sequence e2.0" in text_of(made)
    assert '<a href="#sequence-1">' in made
    assert "a log_torn a.tslog." in text_of(made)


def test_of_very_many_the_first_are_listed_and_the_number_is_said() -> None:
    made = section(*[found("aborted")] * (MOST + 1))
    assert made.count("<li>") == MOST
    assert f"The first {MOST} of {MOST + 1}; all stand in the findings file." in text_of(made)


def test_none_and_not_known_are_two_things() -> None:
    assert "There are none." in findings_section([], [], {})
    assert "There is no findings file" in findings_section(None, [], {})


def test_a_message_never_becomes_markup() -> None:
    assert "<script" not in section(found("x", message=HOSTILE))
