import numpy as np

from tests.support.report_pages import branch
from turnstile.compiler.report.routing_changes import (
    NOTHING_COMPARED,
    routing_changes,
    row_named_in,
    sequences_with_rows,
)
from turnstile.compiler.routing.rows import Experts, RowDifference
from turnstile.compiler.sequence import TrainingSequence

PARENT_ROWS = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[1, 3], [2, 4]]]


def rows(values: list[list[list[int]]]) -> Experts:
    return np.array(values, np.uint8)


def pair(child_rows: list[list[list[int]]] | None) -> tuple[TrainingSequence, TrainingSequence]:
    parent = branch(1, [1, 2, 3, 4], routed_experts=rows(PARENT_ROWS))
    experts = None if child_rows is None else rows(child_rows)
    return parent, branch(2, [1, 2, 3, 4, 5], parent, "routing_changed", routed_experts=experts)


def test_the_order_of_experts_does_not_count() -> None:
    parent, child = pair([[[2, 1], [4, 3]], [[5, 6], [8, 7]], [[1, 3], [2, 4]], [[0, 1], [0, 1]]])
    changes = routing_changes(child, parent, 4)
    assert (changes.layers_R.tolist(), changes.first) == ([0, 0, 0], None)


def test_the_layers_of_each_row_that_differ_are_counted_and_the_first_is_named() -> None:
    parent, child = pair([[[1, 2], [3, 4]], [[5, 6], [7, 9]], [[1, 4], [2, 3]], [[0, 1], [0, 1]]])
    changes = routing_changes(child, parent, 4)
    assert changes.layers_R.tolist() == [0, 1, 2]
    assert changes.first == RowDifference(1, 1, [7, 8], [7, 9])


def test_only_rows_of_shared_tokens_are_compared() -> None:
    parent, child = pair([[[1, 2], [3, 4]], [[5, 6], [7, 9]], [[1, 4], [2, 3]], [[0, 1], [0, 1]]])
    assert routing_changes(child, parent, 1).layers_R.tolist() == [0]


def test_nothing_is_compared_without_rows_on_both_sides_of_one_shape() -> None:
    parent, child = pair(None)
    assert routing_changes(child, parent, 4) is NOTHING_COMPARED
    assert routing_changes(parent, None, 0) is NOTHING_COMPARED
    wider = branch(2, [1, 2, 3, 4, 5], parent, routed_experts=np.zeros((4, 2, 3), np.uint8))
    assert routing_changes(wider, parent, 4) is NOTHING_COMPARED


def test_the_row_of_a_finding_is_read_from_its_message() -> None:
    assert row_named_in("row 12, layer 3 names experts [1], before [2]") == 12
    assert row_named_in("rows 7 to 9 were computed again") == 7
    assert row_named_in("nothing is known") is None


def test_rows_of_what_was_routed_otherwise_come_first_in_what_the_page_holds() -> None:
    _, child = pair([PARENT_ROWS[0]] * 4)
    parent, other = branch(1, [1, 2, 3, 4], routed_experts=rows(PARENT_ROWS)), branch(3, [7, 8])
    before = branch(4, [1, 2, 3, 4, 5], routed_experts=rows([PARENT_ROWS[0]] * 4))
    sequences, parents = [before, parent, other, child], [None, None, None, 1]
    assert sequences_with_rows(sequences, parents) == {0, 1, 3}
    assert sequences_with_rows(sequences, parents, limit_bytes=12 + 16) == {1, 3}
    assert sequences_with_rows(sequences, parents, limit_bytes=3) == set()
