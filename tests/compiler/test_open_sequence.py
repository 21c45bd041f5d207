from typing import Any

import numpy as np
import pytest

from tests.support.routing import bare_rows, rows
from tests.support.turns import turn
from turnstile.compiler.open_sequence import OpenSequence, Refusal, cached_rows
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn

FIRST = turn(1, [1, 2, 3], [4, 5], rollout_id="a")  # 4 rows
PROMPT = [1, 2, 3, 4, 5, 6]


def opened(*told: tuple[Turn, RoutedRows | None]) -> OpenSequence:
    sequence = OpenSequence()
    for added, its_rows in told:
        sequence.add(added, np.concatenate((added.prompt_ids, added.sampled_ids)), its_rows)
    return sequence


def known(*numbers: int) -> OpenSequence:
    return opened((FIRST, rows(*numbers)))


def refusal(sequence: OpenSequence, told: RoutedRows | None, **fields: Any) -> Refusal | None:
    return sequence.refuses(turn(2, PROMPT, [7], **fields), told)


def message(sequence: OpenSequence, told: RoutedRows, **fields: Any) -> str:
    found = refusal(sequence, told, **fields)
    assert found is not None
    assert (found.sequence, found.cause) == (sequence, "routing_changed")
    return found.message


def test_turns_are_added_to_the_end() -> None:
    second = turn(2, PROMPT, [7], rollout_id="b")
    sequence = opened((FIRST, rows(1, 2, 3, 4)), (second, rows(5, 6, start=4)))
    assert sequence.tokens_T.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert (sequence.turns, sequence.starts) == ([FIRST, second], [0, 5])
    assert sequence.rollout_ids == {"a", "b"}
    joined = sequence.routing.beginning(6)
    assert joined is not None
    assert joined.experts.tolist() == rows(1, 2, 3, 4, 5, 6).experts.tolist()


@pytest.mark.parametrize(
    ("cached_tokens", "expected"),
    [
        (0, [None, None, None, None, 5, 6]),  # the row of token 4, sampled last, was never computed before
        (2, [1, 2, None, None, 5, 6]),
        (4, [1, 2, 3, 4, 5, 6]),
        (None, [None, None, None, None, 5, 6]),
    ],
)
def test_rows_that_nobody_told_are_taken_from_a_later_turn_unless_it_computed_them_again(
    cached_tokens: int | None, expected: list[int | None]
) -> None:
    second = turn(2, PROMPT, [7], cached_tokens=cached_tokens), rows(1, 2, 3, 4, 5, 6)
    known = opened((FIRST, None), second).routing
    for at, number in enumerate(expected):
        assert known.first_known(at, at + 1) == (None if number is None else at)
        assert number is None or known.difference(rows(number, start=at)) is None


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"cached_tokens": 4}, None),
        ({"cached_tokens": 2}, 2),
        ({"cached_tokens": 6, "num_retractions": 1}, 0),
    ],
)
def test_known_rows_that_a_turn_without_routing_computed_again_are_lost(
    fields: dict[str, Any], row: int | None
) -> None:
    last = turn(3, [*PROMPT, 7, 8], [9], cached_tokens=7), rows(1, 2, 3, 4, 5, 6, 7, 8)
    sequence = opened((FIRST, rows(1, 2, 3, 4)), (turn(2, PROMPT, [7], **fields), None), last)
    assert sequence.routing.first_unknown(8) == row


def test_rows_that_other_turns_changed_since_are_lost_unless_they_are_told() -> None:
    second, changed = turn(2, PROMPT, [7], cached_tokens=6), np.array([False, True])
    for told, unknown in ((None, 1), (rows(1, 2, 3, 4, 5, 6), None)):
        sequence, tokens_T = known(1, 2, 3, 4), np.array([*PROMPT, 7], np.int32)
        sequence.add(second, tokens_T, told, changed)
        assert sequence.routing.first_unknown(4) == unknown


def test_the_turn_that_added_a_token_is_known() -> None:
    second = turn(2, PROMPT, [7])
    sequence = opened((FIRST, None), (second, None))
    assert [sequence.turn_at(index) for index in (0, 4, 5, 6, 7)] == [FIRST, FIRST, second, second, second]


def test_a_sequence_that_left_another_knows_where() -> None:
    second = turn(2, PROMPT, [7])
    parent, left = opened((FIRST, None), (second, None)), OpenSequence()
    because = Refusal(parent, "routing_changed", "why")
    left.leave(parent, 3, turn(3, [1, 2, 3, 9], [8]), because)
    assert (left.parent, left.shared_tokens, left.parent_turn, left.refusal) == (parent, 3, FIRST, because)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0),
        ({"cached_tokens": 4}, 4),
        ({"cached_tokens": 4, "num_retractions": 0}, 4),
        ({"cached_tokens": 4, "num_retractions": 1}, 0),
        ({"num_retractions": 1}, 0),
    ],
)
def test_a_prompt_is_at_hand_as_far_as_the_turn_says_so(fields: dict[str, Any], expected: int) -> None:
    assert cached_rows(turn(1, PROMPT, [7], **fields)) == expected


def test_unknown_routing_refuses_nothing() -> None:
    assert refusal(known(1, 2, 3, 4), None) is None
    assert refusal(opened((FIRST, None)), rows(1, 2, 3, 4, 5, 6)) is None
    assert refusal(opened((FIRST, None)), rows(6, start=5), cached_tokens=0) is None


def test_the_same_rows_are_no_reason_to_refuse_however_much_was_computed_again() -> None:
    for cached_tokens in (None, 0, 6):
        found = refusal(known(1, 2, 3, 4), rows(1, 2, 3, 4, 5, 6), cached_tokens=cached_tokens)
        assert found is None


@pytest.mark.parametrize(
    ("fields", "at_hand"),
    [
        ({"cached_tokens": 2}, "the row was computed again: the backend had 2 tokens of 6 at hand"),
        ({"cached_tokens": 3}, "the row was not computed again: the backend had 3 tokens of 6 at hand"),
        (
            {"cached_tokens": 6, "num_retractions": 1},
            "the row was computed again: the backend had 6 tokens of 6 at hand",
        ),
        ({}, "whether the row was computed again is not told"),
    ],
)
def test_another_row_is_refused_and_said_with_what_was_computed_again(
    fields: dict[str, Any], at_hand: str
) -> None:
    assert message(known(1, 2, 3, 4), rows(1, 2, 9, 4, 5, 6), **fields) == (
        f"row 2, layer 0 names experts [9, 10], before [3, 4]; {at_hand}"
    )


def test_another_shape_is_refused() -> None:
    assert message(known(1, 2, 3, 4), bare_rows(1, 2, 3, 4, 5, 6)) == (
        "row 0 is not the same as before, and the shape of the rows is unknown or another one"
    )


def test_another_row_of_an_unknown_shape_is_refused() -> None:
    sequence = opened((FIRST, bare_rows(1, 2, 3, 4)))
    assert message(sequence, bare_rows(1, 2, 9)) == (
        "row 2 is not the same as before, and the shape of the rows is unknown or another one"
    )


def test_another_order_within_a_row_of_an_unknown_shape_is_refused_and_not_said_to_be_other_experts() -> None:
    told = bare_rows(1, 2, 3, 4)
    told.experts[1] = told.experts[1, [1, 0, 3, 2]]  # may be the same pairs of two layers, or others
    assert message(opened((FIRST, bare_rows(1, 2))), told).startswith("row 1 is not the same as before")


def test_rows_from_a_start_on_are_enough_where_all_before_was_at_hand() -> None:
    assert refusal(known(1, 2, 3, 4), rows(4, 5, 6, start=3), cached_tokens=3) is None
    assert refusal(known(1, 2, 3, 4), rows(4, 5, 6, start=3), cached_tokens=6) is None


@pytest.mark.parametrize(
    ("fields", "at_hand"),
    [
        ({"cached_tokens": 2}, 2),
        ({"cached_tokens": 0}, 0),
        ({"cached_tokens": None}, 0),
        ({"cached_tokens": 6, "num_retractions": 1}, 0),
    ],
)
def test_known_rows_that_were_computed_again_and_not_told_are_refused(
    fields: dict[str, Any], at_hand: int
) -> None:
    assert message(known(1, 2, 3, 4), rows(4, 5, 6, start=3), **fields) == (
        f"rows {at_hand} to 2 were computed again (the backend had {at_hand} tokens of 6 at hand), and the "
        "answer tells only the rows from 3 on"
    )


def test_unknown_rows_may_have_been_computed_again() -> None:
    sequence = opened((FIRST, rows(1, 2)))
    assert refusal(sequence, rows(5, 6, start=4), cached_tokens=2) is None
    assert message(sequence, rows(5, 6, start=4), cached_tokens=1).startswith("rows 1 to 3 were computed")


def test_a_row_that_differs_comes_before_rows_that_were_not_told() -> None:
    assert message(known(1, 2, 3, 4), rows(9, 5, 6, start=3), cached_tokens=0).startswith("row 3, layer 0")
