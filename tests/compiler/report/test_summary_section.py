from tests.support.report_pages import branch, contents, found, text_of
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.summary_section import summary_section


def test_what_is_there_is_counted() -> None:
    one = branch(1, [1, 2, 3], reward=1.0)
    two = branch(2, [1, 2, 4, 5], one, "retokenized", flags=("stale_cache",), reward=0.0)
    said = text_of(summary_section(contents(one, two)))
    assert "Groups 1 1 named rollout" in said
    assert "Sequences 2 1 split" in said
    assert "Tokens 7 3.5 a sequence Trained tokens 4 57% of all Weight versions 1 7" in said
    assert "Mean reward 0.5 0 to 1, 2 sequences" in said
    assert (
        "retokenized resends an earlier answer unchanged, and the server spells it in other tokens 1" in said
    )
    assert "stale_cache logprobs were computed on keys and values of older weights 1" in said


def test_the_first_sentence_says_whether_anything_is_wrong() -> None:
    error = found("token_type", severity="error")
    for findings, said in (
        ([], "Nothing was left out, and nothing that is here is doubtful."),
        ([error], "1 error kept data out; nothing here is doubtful."),
        ([found("aborted")] * 2, "Nothing was left out; 2 warnings about what is doubtful."),
    ):
        assert said in text_of(summary_section(contents(branch(1, [1, 2]), findings=findings)))


def test_findings_are_counted_by_kind_and_lead_to_their_list() -> None:
    findings = [found("aborted"), found("token_type", severity="error"), found("aborted")]
    section = summary_section(contents(findings=findings))
    assert "Findings token_type error 1 aborted warning 2" in text_of(section)
    assert 'href="#finding-warning-aborted"' in section


def test_findings_that_are_not_known_are_not_called_none() -> None:
    said = text_of(summary_section(Contents("out.jsonl", [branch(1, [1, 2])], None)))
    assert "There is no findings file beside it: what was left out is not known here." in said
    assert "Findings Not known: there is no findings file." in said


def test_an_empty_report_can_be_read() -> None:
    said = text_of(summary_section(contents()))
    assert "There are no sequences." in said
    assert "There are no trained tokens." in said
