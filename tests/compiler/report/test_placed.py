import numpy as np

from tests.support.report_pages import branch, contents, found
from turnstile.compiler.report.placed import focus_of, placed_sequences, sequences_by_finding


def test_a_finding_is_about_the_sequences_that_hold_its_call() -> None:
    one = branch(1, [1, 2, 3])
    two = branch(2, [1, 2, 4, 5], one)
    findings = [
        found("aborted", 1, choice=0),
        found("undelivered", 1, choice=1),
        found("log_torn"),
        found("x", 2),
    ]
    placed = placed_sequences(contents(one, two, findings=findings))
    assert [each.findings for each in placed] == [(0,), (3,)]
    assert sequences_by_finding(placed) == {0: [0], 3: [1]}


def test_a_sequence_knows_its_parent_what_they_share_and_what_is_trained() -> None:
    one = branch(1, [1, 2, 3])
    placed = placed_sequences(contents(one, branch(2, [1, 2, 4, 5], one)))
    assert [(each.parent, each.shared, each.trained) for each in placed] == [(None, 0, 2), (0, 2, 2)]


def test_where_it_was_routed_otherwise_is_told_by_its_rows_or_else_by_the_finding() -> None:
    rows = np.array([[[1]], [[2]], [[3]]], np.uint8)
    one = branch(1, [1, 2, 3, 4], routed_experts=rows)
    other = np.concatenate((rows, rows[:1]))
    other[2] = 9
    two = branch(2, [1, 2, 3, 4, 5], one, "routing_changed", routed_experts=other)
    three = branch(3, [1, 2, 3, 4, 6], one, "routing_changed")
    findings = [found("routing_changed", 3, message="row 1, layer 0 names experts [5], before [2]")]
    placed = placed_sequences(contents(one, two, three, findings=findings))
    assert [focus_of(each, findings) for each in placed] == [None, 2, 1]
