from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.routing import bare_rows, experts, rows
from turnstile.compiler.routing.joined import KnownRouting
from turnstile.compiler.routing.rows import RoutedRows, RowDifference

Row = list[list[int]]  # layer by layer the experts


def joined(*told: RoutedRows) -> KnownRouting:
    known = KnownRouting()
    for each in told:
        known.add(each)
    return known


def beginning(known: KnownRouting, count: int) -> list[Row] | None:
    found = known.beginning(count)
    return None if found is None else found.experts.tolist()


def test_nothing_is_known_at_first() -> None:
    known = KnownRouting()
    assert known.is_empty
    assert known.difference(rows(1, 2)) is None
    assert (known.first_known(0, 9), known.first_unknown(9)) == (None, 0)
    assert (known.beginning(0), known.beginning(1)) == (None, None)


def test_the_rows_of_turns_are_put_together() -> None:
    known = joined(rows(1, 2), rows(3, 4, start=2))
    assert beginning(known, 4) == experts(1, 2, 3, 4).tolist()
    assert beginning(known, 3) == experts(1, 2, 3).tolist()
    assert not known.is_empty
    assert known.row_size == 4


def test_a_row_that_was_missing_is_taken_from_the_turn_after() -> None:
    known = joined(rows(1, 2), rows(1, 2, 3, 4))
    assert beginning(known, 4) == experts(1, 2, 3, 4).tolist()


def test_of_rows_told_twice_the_first_telling_is_kept() -> None:
    known = joined(rows(1, 2), rows(9, 9, 9))
    assert beginning(known, 3) == experts(1, 2, 9).tolist()


def test_rows_that_are_unknown_in_the_middle_are_filled_later() -> None:
    known = joined(rows(1), rows(4, start=3))
    assert (known.first_unknown(4), known.beginning(4)) == (1, None)
    assert [known.first_known(start, 4) for start in range(4)] == [0, 3, 3, 3]
    known.add(rows(9, 2, 3, 9, 5))
    assert beginning(known, 5) == experts(1, 2, 3, 4, 5).tolist()


def test_several_gaps_are_filled_by_one_telling() -> None:
    known = joined(rows(1), rows(3, start=2), rows(5, start=4), rows(9, 2, 9, 4, 9))
    assert beginning(known, 5) == experts(1, 2, 3, 4, 5).tolist()


def numbers(known: KnownRouting, count: int) -> list[int | None]:
    """The number of each row, None where it is unknown."""
    at_all = range(count)
    return [None if known.first_known(at, at + 1) is None else number(known, at) for at in at_all]


def number(known: KnownRouting, at: int) -> int:
    return next(n for n in range(100) if known.difference(rows(n, start=at)) is None)


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([], [1, 2, 3, 4, 5]),
        ([False] * 3 + [True], [1, 2, 3, None, 5]),
        ([True] * 4, [1, 2, None, None, 5]),
        ([False, False, False, False, True, True], [1, 2, 3, 4, None]),
    ],
)
def test_unknown_rows_that_were_computed_again_stay_unknown(
    again: list[bool], expected: list[int | None]
) -> None:
    known = joined(rows(1, 2))
    known.compute_again(len(again), len(again), np.array(again, np.bool_), is_told=True)
    for told in (rows(2, 3, 4, 5, start=1), rows(1, 2, 3, 4, 5)):
        known.add(told)
        assert numbers(known, 5) == expected


def test_known_rows_that_were_computed_again_and_not_told_are_lost() -> None:
    known = joined(rows(1, 2, 3))
    known.compute_again(1, 2, np.empty(0, np.bool_), is_told=False)
    known.add(rows(1, 2, 3, 4))
    assert numbers(known, 4) == [1, None, 3, 4]
    known.compute_again(3, 6, np.array([True] * 8), is_told=False)
    known.compute_again(6, 6, np.array([False]), is_told=False)
    known.add(rows(1, 2, 3, 4, 5, 6, 7))
    assert numbers(known, 7) == [None] * 6 + [7]


def test_rows_before_the_first_ones_may_come_later() -> None:
    known = joined(rows(3, 4, start=2))
    assert (known.first_unknown(4), known.first_known(0, 2)) == (0, None)
    known.add(rows(1, 2))
    assert beginning(known, 4) == experts(1, 2, 3, 4).tolist()


def test_rows_behind_the_last_known_one_are_unknown() -> None:
    known = joined(rows(1, 2))
    assert (known.first_unknown(2), known.first_unknown(3), known.first_unknown(9)) == (None, 2, 2)
    assert known.beginning(3) is None


def test_a_telling_of_no_rows_makes_nothing_known() -> None:
    known = joined(rows())
    assert known.is_empty
    known.add(rows(1))
    assert beginning(known, 1) == experts(1).tolist()


@pytest.mark.parametrize("wide_first", [False, True])
def test_wider_ids_beside_narrow_ones_keep_all_ids(wide_first: bool) -> None:
    narrow, wide = rows(1, 2), rows(300, 400, start=2, dtype=np.uint16)
    known = joined(wide, narrow) if wide_first else joined(narrow, wide)
    assert beginning(known, 4) == experts(1, 2, 300, 400).tolist()
    assert known.difference(rows(1, 2, 300, 401, dtype=np.uint16)) == RowDifference(
        3, 0, [400, 401], [401, 402]
    )


def test_wider_ids_of_rows_that_are_known_already_change_nothing() -> None:
    known = joined(rows(1, 2, 3), rows(1, 2, dtype=np.uint16))
    assert beginning(known, 3) == experts(1, 2, 3).tolist()


def test_what_is_known_does_not_change_with_the_rows_it_was_told_by() -> None:
    told = rows(1, 2)
    known = joined(told)
    told.experts[:] = 0
    assert beginning(known, 2) == experts(1, 2).tolist()


def test_the_same_rows_do_not_differ() -> None:
    known = joined(rows(1, 2, 3))
    for same in (rows(1, 2, 3), rows(2, 3, start=1), rows(3, 4, start=2), rows(9, start=3), rows(9, start=7)):
        assert known.difference(same) is None


def test_a_row_that_differed_last_is_looked_at_first() -> None:
    known = joined(rows(1, 2, 3, 4))
    found = [known.difference(rows(*numbers)) for numbers in ([1, 2, 9], [8, 2, 9], [8, 2, 3], [1, 2, 3])]
    assert [None if each is None else each.row for each in found] == [2, 2, 0, None]
    assert known.difference(rows(9, start=3)) == RowDifference(3, 0, [4, 5], [9, 10])


@pytest.mark.parametrize(
    ("start", "end", "at_hand", "unlike"),
    [
        (0, 9, 9, [1, 4]),  # all was at hand: only rows that both know
        (0, 9, 5, [1, 4, 5, 6, 7, 8]),
        (0, 9, 0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (1, 2, 2, [1]),
        (2, 4, 4, []),
        (2, 4, 3, [3]),
        (7, 9, 8, [8]),
        (3, 3, 0, []),
    ],
)
def test_rows_are_unlike_where_others_are_known_or_may_be(
    start: int, end: int, at_hand: int, unlike: list[int]
) -> None:
    one, other = joined(rows(1, 2), rows(5, 6, 7, start=4)), joined(rows(1, 9, 3), rows(8, start=4))
    for found in (one.unlike(other, start, end, at_hand), other.unlike(one, start, end, at_hand)):
        assert len(found) == end - start
        assert (np.flatnonzero(found) + start).tolist() == unlike


def test_what_is_known_is_not_unlike_itself() -> None:
    known = joined(rows(1, 2), rows(4, start=3))
    assert known.unlike(known, 0, 5, 0).tolist() == [False, False, True, False, True]
    assert (
        known.unlike(joined(RoutedRows(0, rows(1, 2).experts[:, :, ::-1])), 0, 2, 0).tolist() == [False] * 2
    )


def test_rows_of_another_shape_are_unlike() -> None:
    assert joined(rows(1, 2)).unlike(joined(bare_rows(1)), 0, 3, 3).tolist() == [True, False, False]
    assert joined(rows(1, 2)).unlike(KnownRouting(), 0, 3, 1).tolist() == [False, True, True]


def test_the_first_known_row_of_some() -> None:
    known = joined(rows(1), rows(3, 4, start=2))
    chosen = [np.array(each, np.bool_) for each in ([], [False, True], [False, True, False, True, True])]
    assert [known.first_known_of(each) for each in chosen] == [None, None, 3]
    assert KnownRouting().first_known_of(np.ones(3, np.bool_)) is None


def test_order_within_a_layer_does_not_count() -> None:
    turned = rows(1, 2, 3).experts[:, :, ::-1]
    assert joined(rows(1, 2, 3)).difference(RoutedRows(0, turned)) is None


def test_the_order_of_layers_counts() -> None:
    turned = rows(1, 2, 3).experts[:, ::-1, :]
    assert joined(rows(1, 2, 3)).difference(RoutedRows(0, turned)) == RowDifference(0, 0, [1, 2], [3, 4])


def test_a_difference_in_a_later_layer_is_found() -> None:
    other = rows(1, 2, 3)
    other.experts[1, 1] = (5, 3)
    assert joined(rows(1, 2, 3)).difference(other) == RowDifference(1, 1, [4, 5], [3, 5])


def test_how_often_an_expert_is_named_counts() -> None:
    known = joined(RoutedRows(0, np.array([[[1, 1, 2]]], np.uint8)))
    twice = RoutedRows(0, np.array([[[2, 2, 1]]], np.uint8))
    assert known.difference(twice) == RowDifference(0, 0, [1, 1, 2], [1, 2, 2])


def test_unknown_rows_do_not_differ_from_any() -> None:
    known = joined(rows(1), rows(4, start=3))
    assert known.difference(rows(1, 50, 51, 4)) is None
    assert known.difference(rows(1, 50, 51, 40)) == RowDifference(3, 0, [4, 5], [40, 41])


@pytest.mark.parametrize("at", [0, 1, 255, 256, 257, 767, 768, 1000, 2999])
@pytest.mark.parametrize("start", [0, 1, 200])
def test_a_single_difference_is_found_wherever_it_lies(at: int, start: int) -> None:
    known = joined(rows(*[1] * 3000))
    told = rows(*[1] * (3100 - start), start=start)
    told.experts[at : at + 1, 1] = (9, 8)
    told.experts[at + 1 :, 0] = (5, 6)
    found = known.difference(told)
    if start + at < 3000:
        assert found == RowDifference(start + at, 1, [3, 4], [8, 9])
    else:
        assert found is None


def test_other_layers_or_experts_a_token_are_another_shape() -> None:
    known = joined(rows(1, 2, 3))
    for shape in ((3, 4, 1), (3, 1, 4), (3, 1, 2)):
        other = RoutedRows(1, np.resize(rows(1, 2, 3).experts, shape))
        assert known.difference(other) == RowDifference(1, None, [], [])


def test_rows_without_a_shape_are_compared_value_by_value() -> None:
    known = joined(bare_rows(1, 2, 3))
    assert known.difference(bare_rows(1, 2, 3, 4)) is None
    assert known.difference(bare_rows(1, 2, 4)) == RowDifference(2, None, [3], [4])
    assert known.row_size == 4


def test_a_shape_counts_as_known_only_if_every_telling_knew_it() -> None:
    first = joined(rows(1)).beginning(1)
    assert first is not None and first.has_shape
    without = RoutedRows(1, experts(2), has_shape=False)
    for told in ([bare_rows(1)], [rows(1), without], [rows(1), without, rows(3, start=2)]):
        found = joined(*told).beginning(1)
        assert found is not None and not found.has_shape


@dataclass
class PlainRouting:
    """The rules spelled out, row by row."""

    known: dict[int, Row]

    def add(self, told: RoutedRows) -> None:
        for at, row in enumerate(told.experts.tolist(), told.start):
            self.known.setdefault(at, row)

    def difference(self, told: RoutedRows) -> RowDifference | None:
        for at, row in enumerate(told.experts.tolist(), told.start):
            for layer, (one, other) in enumerate(zip(self.known.get(at, row), row, strict=True)):
                if sorted(one) != sorted(other):
                    return RowDifference(at, layer, sorted(one), sorted(other))
        return None

    def first_known(self, start: int, end: int) -> int | None:
        return next((at for at in range(start, end) if at in self.known), None)

    def first_unknown(self, count: int) -> int | None:
        return next((at for at in range(count) if at not in self.known), None)

    def beginning(self, count: int) -> list[Row] | None:
        return [self.known[at] for at in range(count)] if self.first_unknown(count) is None else None


@st.composite
def tellings(draw: st.DrawFn) -> list[RoutedRows]:
    """Rows of one true path; some are turned round, some name another expert, some are wide."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        start, size = draw(st.integers(0, 12)), draw(st.integers(1, 12))
        dtype = draw(st.sampled_from([np.uint8, np.uint16]))
        told = rows(*range(start, start + size), start=start, dtype=dtype)
        if draw(st.booleans()):
            layer = draw(st.integers(0, 1))
            told.experts[:, layer] = told.experts[:, layer, ::-1].copy()
        if draw(st.booleans()):
            wrong = draw(st.integers(0, size - 1)), draw(st.integers(0, 1)), draw(st.integers(0, 1))
            told.experts[wrong] = draw(st.integers(20, 255 if dtype is np.uint8 else 65_535))
        found.append(told)
    return found


@settings(max_examples=500)
@given(tellings(), st.integers(0, 25), st.integers(0, 25))
def test_rows_are_joined_as_a_dict_of_rows_would(told: list[RoutedRows], start: int, end: int) -> None:
    known, plain = KnownRouting(), PlainRouting({})
    for each in told:
        found, first = known.difference(each), plain.difference(each)
        assert (found is None) == (first is None)
        if found is not None:  # the first, or one that was the first before
            at = found.row - each.start
            assert plain.difference(RoutedRows(found.row, each.experts[at : at + 1])) == found
        known.add(each)
        plain.add(each)
        assert known.first_known(start, end) == plain.first_known(start, end)
        assert known.first_unknown(end) == plain.first_unknown(end)
        assert beginning(known, end) == plain.beginning(end)
