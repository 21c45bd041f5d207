from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import turns as build
from tests.support.images import prompt_image
from tests.support.routing import rows
from turnstile.compiler.forest import OpenSequence, TrajectoryForest
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn

Asked = tuple[list[int], list[int], str | None]  # prompt ids, sampled ids, rollout


def turn(number: int, asked: Asked) -> Turn:
    prompt_ids, sampled_ids, rollout_id = asked
    return Turn(
        exchange_id=f"e{number}",
        choice=0,
        group_id="g",
        rollout_id=rollout_id,
        started_at=float(number),
        log="a.tslog",
        offset=0,
        prompt_ids=np.array(prompt_ids, np.int32),
        sampled_ids=np.array(sampled_ids, np.int32),
        logprobs=np.zeros(len(sampled_ids)),
        finish_reason="stop",
    )


def merged(*turns: Asked) -> list[OpenSequence]:
    forest = TrajectoryForest()
    for number, asked in enumerate(turns):
        forest.add(turn(number, asked))
    return forest.sequences


def calls(sequence: OpenSequence) -> list[str]:
    return [turn.exchange_id for turn in sequence.turns]


def test_prompt_that_goes_on_from_prompt_and_sampled_ids_extends_the_sequence() -> None:
    (sequence,) = merged(([1, 2], [3], None), ([1, 2, 3, 4], [5], None))
    assert sequence.tokens_T.tolist() == [1, 2, 3, 4, 5]
    assert (calls(sequence), sequence.starts) == (["e0", "e1"], [0, 3])


def test_sampled_ids_that_are_spelled_otherwise_start_a_sequence() -> None:
    first, second = merged(([1, 2], [3, 4], None), ([1, 2, 34, 5], [6], None))
    assert first.tokens_T.tolist() == [1, 2, 3, 4]
    assert second.tokens_T.tolist() == [1, 2, 34, 5, 6]
    assert (second.parent, second.shared_tokens, second.parent_turn) == (first, 2, first.turns[0])


def test_same_prompt_again_starts_a_sequence_even_with_the_same_answer() -> None:
    first, second = merged(([1], [2], None), ([1], [2], None))
    assert (second.parent, second.shared_tokens) == (first, 2)


def test_longest_sequence_wins() -> None:
    long, short = merged(([1, 2], [3], "a"), ([1], [2], "b"), ([1, 2, 3, 4], [5], "b"))
    assert (calls(long), calls(short)) == (["e0", "e2"], ["e1"])


def test_among_equals_the_same_rollout_wins() -> None:
    one, other = merged(([1], [2], "a"), ([1], [2], "b"), ([1, 2, 3], [4], "a"))
    assert (calls(one), calls(other)) == (["e0", "e2"], ["e1"])


def test_among_equals_of_no_rollout_the_latest_wins() -> None:
    one, other = merged(([1], [2], None), ([1], [2], None), ([1, 2, 3], [4], None))
    assert (calls(one), calls(other)) == (["e0"], ["e1", "e2"])


def test_extended_sequence_is_no_candidate_where_it_ended_before() -> None:
    first, second = merged(([1], [2], None), ([1, 2, 3], [4], None), ([1, 2, 5], [6], None))
    assert (calls(first), calls(second)) == (["e0", "e1"], ["e2"])
    assert (second.shared_tokens, second.parent_turn) == (2, first.turns[1])


def test_interleaved_rollouts_each_go_on() -> None:
    one, other = merged(
        ([1, 7], [2], None), ([1, 8], [2], None), ([1, 7, 2, 3], [4], None), ([1, 8, 2, 3], [4], None)
    )
    assert (calls(one), calls(other)) == (["e0", "e2"], ["e1", "e3"])


def test_sequence_is_told_to_have_left_its_own_rollout() -> None:
    own, _, later = merged(([1, 2], [5], "a"), ([1, 2, 3], [4], "b"), ([1, 2, 3, 9], [8], "a"))
    assert (later.parent, later.shared_tokens) == (own, 2)


def test_first_sequence_of_a_rollout_is_told_to_have_left_another_one() -> None:
    other, own = merged(([1, 2], [3], "a"), ([1, 2], [4], "b"))
    assert (own.parent, own.shared_tokens) == (other, 2)


def test_nothing_in_common_has_no_parent() -> None:
    _, second = merged(([1], [2], None), ([3], [4], None))
    assert (second.parent, second.shared_tokens) == (None, 0)


def by_comparing_all(turns: list[Asked]) -> list[tuple[list[int], list[str], int]]:
    """The rules spelled out: (tokens, calls, tokens shared with any earlier sequence) of each sequence."""
    found: list[tuple[list[int], list[str], int]] = []
    latest: list[tuple[int, str | None]] = []
    rollouts: list[set[str | None]] = []
    for number, (prompt, sampled, rollout) in enumerate(turns):
        fitting = [at for at, (tokens, _, _) in enumerate(found) if prompt[: len(tokens)] == tokens]
        if fitting:
            at = max(fitting, key=lambda at: (len(found[at][0]), latest[at][1] == rollout, latest[at][0]))
            _, made_of, shared = found[at]
            found[at] = (prompt + sampled, [*made_of, f"e{number}"], shared)
            latest[at] = (number, rollout)
            rollouts[at].add(rollout)
        else:
            sizes = [common(tokens, prompt + sampled) for tokens, _, _ in found]
            own = [size for size, names in zip(sizes, rollouts, strict=True) if rollout in names]
            shared = max(own, default=0) or max(sizes, default=0)
            found.append((prompt + sampled, [f"e{number}"], shared))
            latest.append((number, rollout))
            rollouts.append({rollout})
    return found


def common(one: list[int], other: list[int]) -> int:
    differs = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, min(len(one), len(other)))


IDS = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[Asked]:
    """Turns that mostly go on from one another, so that every rule is met often."""
    turns: list[Asked] = []
    for _ in range(draw(st.integers(1, 10))):
        history = draw(st.sampled_from([[], *([*prompt, *sampled] for prompt, sampled, _ in turns)]))
        kept = draw(st.integers(0, len(history)) | st.just(len(history)))
        more = draw(st.lists(st.integers(0, 2), min_size=0 if kept else 1, max_size=3))
        turns.append((history[:kept] + more, draw(IDS), draw(st.sampled_from([None, "a", "b"]))))
    return turns


@settings(max_examples=300)
@given(conversations())
def test_forest_merges_as_comparing_every_pair_would(turns: list[Asked]) -> None:
    sequences = merged(*turns)
    got = [(sequence.tokens_T.tolist(), calls(sequence), sequence.shared_tokens) for sequence in sequences]
    assert got == by_comparing_all(turns)
    for sequence in sequences:
        if sequence.parent is not None:
            shared = sequence.parent.tokens_T[: sequence.shared_tokens]
            assert shared.tolist() == sequence.tokens_T[: sequence.shared_tokens].tolist()


Told = tuple[Turn, RoutedRows | None]


def routed(*told: Told) -> list[OpenSequence]:
    forest = TrajectoryForest()
    for added, its_rows in told:
        forest.add(added, its_rows)
    return forest.sequences


def routing(sequence: OpenSequence) -> list[int | None]:
    """The number of each row but the last token's, as `rows` counts them; None where it is unknown."""
    known = sequence.routing
    at_all = range(len(sequence.tokens_T) - 1)
    return [None if known.first_known(at, at + 1) is None else number_of(sequence, at) for at in at_all]


def number_of(sequence: OpenSequence, at: int) -> int:
    return next(n for n in range(100) if sequence.routing.difference(rows(n, start=at)) is None)


FIRST: Told = build.turn(0, [1, 2], [3], rollout_id="a"), rows(1, 2)


def second(told: RoutedRows | None, **fields: Any) -> Told:
    return build.turn(1, [1, 2, 3, 4], [5], **{"cached_tokens": 4, "rollout_id": "a"} | fields), told


def test_a_sequence_whose_routing_is_the_same_goes_on() -> None:
    (sequence,) = routed(FIRST, second(rows(1, 2, 3, 4)))
    assert (calls(sequence), routing(sequence)) == (["e0", "e1"], [1, 2, 3, 4])


def test_another_routing_starts_a_sequence_that_left_the_one_it_would_have_gone_on() -> None:
    first, other = routed(FIRST, second(rows(1, 9, 3, 4)))
    assert (routing(first), routing(other)) == ([1, 2], [1, 9, 3, 4])
    assert (other.parent, other.shared_tokens, other.parent_turn) == (first, 3, FIRST[0])
    assert other.refusal is not None
    assert (other.refusal.sequence, other.refusal.cause) == (first, "routing_changed")


def test_a_sequence_that_refused_a_turn_goes_on_with_one_that_agrees() -> None:
    agreeing = build.turn(2, [1, 2, 3, 6], [7]), rows(1, 2, 3, 6)
    first, _ = routed(FIRST, second(rows(1, 9, 3, 4)), agreeing)
    assert (calls(first), routing(first)) == (["e0", "e2"], [1, 2, 3, 6])


def test_a_shorter_sequence_that_agrees_goes_on_where_the_longest_refuses() -> None:
    short = build.turn(1, [1], [2]), rows(9)
    third = build.turn(2, [1, 2, 3, 4], [5]), rows(9, 2, 3, 4)
    longest, shorter = routed(FIRST, short, third)
    assert (calls(longest), calls(shorter)) == (["e0"], ["e1", "e2"])
    assert (routing(longest), routing(shorter)) == ([1, 2], [9, 2, 3, 4])


def test_when_all_refuse_the_sequence_is_told_to_have_left_the_longest() -> None:
    short = build.turn(1, [1], [2], rollout_id="b"), rows(1)
    third = build.turn(2, [1, 2, 3, 4], [5], rollout_id="b"), rows(8, 2, 3, 4)
    longest, _, other = routed(FIRST, short, third)
    assert other.refusal is not None
    assert (other.refusal.sequence, other.parent, other.shared_tokens) == (longest, longest, 3)


def test_of_siblings_with_the_same_tokens_each_goes_on_with_its_own_routing() -> None:
    sibling = build.turn(1, [1, 2], [3], rollout_id="a"), rows(1, 9)
    of_first = build.turn(2, [1, 2, 3, 4], [5], rollout_id="a"), rows(1, 2, 3, 4)
    of_second = build.turn(3, [1, 2, 3, 4], [5], rollout_id="a"), rows(1, 9, 3, 4)
    first, other = routed(FIRST, sibling, of_first, of_second)
    assert (calls(first), calls(other)) == (["e0", "e2"], ["e1", "e3"])
    assert (routing(first), routing(other)) == ([1, 2, 3, 4], [1, 9, 3, 4])


def test_a_sibling_of_another_rollout_that_agrees_comes_before_an_own_one_that_does_not() -> None:
    sibling = build.turn(1, [1, 2], [3], rollout_id="b"), rows(1, 9)
    third = build.turn(2, [1, 2, 3, 4], [5], rollout_id="a"), rows(1, 9, 3, 4)
    own, other = routed(FIRST, sibling, third)
    assert (calls(own), calls(other)) == (["e0"], ["e1", "e2"])


def test_turns_without_routing_merge_by_their_tokens() -> None:
    (sequence,) = routed(FIRST, second(None))
    assert (calls(sequence), routing(sequence)) == (["e0", "e1"], [1, 2, None, None])
    third = build.turn(2, [1, 2, 3, 4, 5, 6], [7], cached_tokens=6), rows(1, 2, 3, 4, 5, 6)
    (sequence,) = routed(FIRST, second(None), third)
    assert routing(sequence) == [1, 2, 3, 4, 5, 6]


def test_rows_from_a_start_on_extend_where_the_backend_had_all_before_at_hand() -> None:
    (sequence,) = routed(FIRST, second(rows(2, 3, 4, start=1), cached_tokens=1))
    assert routing(sequence) == [1, 2, 3, 4]


@pytest.mark.parametrize("fields", [{"cached_tokens": 0}, {"cached_tokens": None}, {"num_retractions": 1}])
def test_rows_from_a_start_on_split_where_what_is_before_was_computed_again(fields: dict[str, Any]) -> None:
    first, other = routed(FIRST, second(rows(2, 3, 4, start=1), **fields))
    assert (routing(first), routing(other)) == ([1, 2], [None, 2, 3, 4])
    assert other.refusal is not None and other.parent is first


@pytest.mark.parametrize("cached_tokens", [0, 1, None])
def test_unknown_rows_are_not_filled_with_those_of_a_recomputation(cached_tokens: int | None) -> None:
    (sequence,) = routed((FIRST[0], None), second(rows(1, 2, 3, 4), cached_tokens=cached_tokens))
    assert routing(sequence) == [1 if cached_tokens else None, None, 3, 4]


def flushed(told: RoutedRows | None) -> Told:
    """A turn of another rollout that goes on from the first, all of its tokens computed again."""
    return build.turn(1, [1, 2, 3, 4], [5], rollout_id="b", cached_tokens=0), told


def test_rows_that_another_turn_computed_again_since_are_not_those_at_hand() -> None:
    third = build.turn(2, [1, 2, 3, 6], [7], rollout_id="a", cached_tokens=3), rows(2, 3, 6, start=1)
    first, _, other = routed(FIRST, flushed(rows(9, 2, 3, 4)), third)
    assert (calls(first), routing(other)) == (["e0"], [None, 2, 3, 6])
    assert other.refusal is not None
    assert (other.refusal.sequence, other.refusal.cause, other.refusal.message) == (
        first,
        "routing_changed",
        "row 0 was computed again for another turn since; its experts are others then, or not told",
    )


@pytest.mark.parametrize("told", [None, rows(3, 4, start=2), rows(4, start=3)])
def test_rows_that_another_turn_computed_again_since_and_did_not_tell_may_be_others(
    told: RoutedRows | None,
) -> None:
    third = build.turn(2, [1, 2, 3, 6], [7], rollout_id="a", cached_tokens=3), rows(2, 3, 6, start=1)
    first, *_, other = routed(FIRST, flushed(told), third)
    assert (routing(first)[0], routing(other)) == (1 if told else None, [None, 2, 3, 6])


def test_rows_that_another_turn_computed_again_and_told_the_same_are_at_hand() -> None:
    third = build.turn(2, [1, 2, 3, 6], [7], rollout_id="a", cached_tokens=3), rows(2, 3, 6, start=1)
    again = build.turn(1, [1, 2, 8], [9], rollout_id="b", cached_tokens=0), rows(1, 2, 8)
    first, _ = routed(FIRST, again, third)
    assert (calls(first), routing(first)) == (["e0", "e2"], [1, 2, 3, 6])


def test_changes_before_the_last_turn_of_a_sequence_were_before_its_time() -> None:
    before = build.turn(0, [1, 2, 8], [9], rollout_id="b", cached_tokens=0), rows(7, 7, 8)
    third = build.turn(2, [1, 2, 3, 6], [7], rollout_id="a", cached_tokens=3), rows(2, 3, 6, start=1)
    _, own = routed(before, FIRST, third)
    assert (calls(own), routing(own)) == (["e0", "e2"], [1, 2, 3, 6])


def test_unknown_rows_are_not_filled_once_they_were_computed_again() -> None:
    again = build.turn(1, [1, 2, 3, 4], [5], cached_tokens=0), rows(1, 2, 3, 4)
    third = build.turn(2, [1, 2, 3, 4, 5, 6], [7], cached_tokens=5), rows(1, 2, 3, 4, 5, 6)
    (sequence,) = routed((FIRST[0], None), again, third)
    assert routing(sequence) == [None, None, 3, 4, 5, 6]
    elsewhere = build.turn(1, [1, 2, 8], [9], cached_tokens=0), rows(1, 2, 8)
    last = build.turn(3, [1, 2, 3, 4], [5], cached_tokens=3), rows(1, 2, 3, 4)
    assert routing(routed((FIRST[0], None), elsewhere, last)[0]) == [None, None, 3, 4]


def test_all_rows_that_a_turn_tells_are_compared_whatever_other_turns_were_told() -> None:
    third = build.turn(2, [1, 2, 3, 6], [7], rollout_id="a", cached_tokens=0), rows(1, 2, 3, 6)
    first, _ = routed(FIRST, flushed(rows(9, 2, 3, 4)), third)
    assert (calls(first), routing(first)) == (["e0", "e2"], [1, 2, 3, 6])


def fork(told: RoutedRows | None, **fields: Any) -> Told:
    """A turn that shares the tokens 1, 2 with the first."""
    return build.turn(1, [1, 2, 7, 8], [9], **{"cached_tokens": 4, "rollout_id": "a"} | fields), told


@pytest.mark.parametrize("start", [1, 2])
def test_a_new_sequence_takes_over_the_rows_before_its_start(start: int) -> None:
    told = rows(*[1, 2, 7, 8][start:], start=start)
    first, other = routed(FIRST, fork(told, cached_tokens=start))
    assert (routing(first), routing(other)) == ([1, 2], [1, 2, 7, 8])
    assert (other.refusal, other.parent) == (None, first)


@pytest.mark.parametrize(
    ("told", "fields"),
    [
        (rows(2, 7, 8, start=1), {"cached_tokens": 0}),
        (rows(2, 7, 8, start=1), {"cached_tokens": None}),
        (rows(2, 7, 8, start=1), {"num_retractions": 1}),
        (rows(9, 7, 8, start=1), {}),  # another row where both know it
        (rows(8, start=3), {}),  # row 2 belongs to a token that they do not share
    ],
)
def test_rows_that_may_be_others_are_not_taken_over(told: RoutedRows, fields: dict[str, Any]) -> None:
    _, other = routed(FIRST, fork(told, **fields))
    assert routing(other)[: told.start] == [None] * told.start


def test_rows_that_the_parent_does_not_know_are_not_taken_over() -> None:
    unknown = build.turn(0, [1, 2, 3, 4], [5]), rows(3, 4, start=2)
    added = build.turn(1, [1, 2, 3, 9], [9], cached_tokens=3), rows(4, 9, start=3)
    _, other = routed(unknown, added)
    assert routing(other) == [None, None, None, 4]


def test_rows_that_another_turn_computed_again_since_are_not_taken_over() -> None:
    first, _, other = routed(FIRST, flushed(rows(9, 2, 3, 4)), fork(rows(2, 7, 8, start=1)))
    assert (other.parent, routing(other)) == (first, [None, 2, 7, 8])


def test_what_is_taken_over_may_refuse_later_turns() -> None:
    told = fork(rows(2, 7, 8, start=1))
    again = build.turn(2, [1, 2, 7, 8, 9, 6], [5]), rows(4, 2, 7, 8, 9, 6)
    _, other, third = routed(FIRST, told, again)
    assert (calls(other), third.parent) == (["e1"], other)


@dataclass
class PlainSequence:
    """A sequence as the rules are spelled out: its tokens, and the number of each row that is known."""

    tokens: list[int]
    calls: list[str]
    latest: int
    rollout: str | None
    rows: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)

    def refuses(self, told: dict[int, int], start: int, at_hand: int) -> bool:
        if not told or not self.rows:
            return False
        differs = any(self.rows.get(at, number) != number for at, number in told.items())
        return differs or any(at in self.rows for at in range(at_hand, start))


class PlainForest:
    """The rules for routing, every pair and every row compared; `follow` checks a forest against them."""

    def __init__(self) -> None:
        self.sequences: list[PlainSequence] = []
        self.forest = TrajectoryForest()
        self.changed: dict[tuple[int, ...], int] = {}  # tokens up to the one of a row -> last turn

    def follow(self, number: int, asked: Asked, told: RoutedRows | None, cached: int | None) -> None:
        prompt, sampled, rollout = asked
        numbers = {} if told is None else dict(enumerate(told.experts[:, 0, 0].tolist(), told.start))
        start = 0 if told is None else told.start
        fitting = [each for each in self.sequences if prompt[: len(each.tokens)] == each.tokens]
        fitting.sort(key=lambda each: (len(each.tokens), each.rollout == rollout, each.latest), reverse=True)
        going_on = (
            each
            for each in fitting
            if not each.refuses(numbers, start, cached or 0) and not self.overtaken(each, prompt, start)
        )
        found = next(going_on, None)
        added = build.turn(number, prompt, sampled, rollout_id=rollout, cached_tokens=cached)
        started = self.forest.add(added, told)
        assert (started is None) == (found is not None)
        if found is None:
            found = PlainSequence([], [], number, rollout)
            assert started is not None
            assert (started.refusal is not None) == bool(fitting)
            if started.refusal is not None:
                assert self.plain(started.refusal.sequence) is fitting[0]
            if started.parent is not None and 0 < start <= min(cached or 0, started.shared_tokens):
                parent = self.plain(started.parent)
                if not self.overtaken(parent, prompt + sampled, start):
                    found.rows = self.taken_over(parent, numbers, start, started.shared_tokens)
            self.sequences.append(found)
        changed = {at for at in range(len(found.tokens) - 1) if self.is_changed(found, prompt, at)}
        again = changed | set(range(cached or 0, len(found.tokens) - 1))
        found.lost |= again
        kept = {at: row for at, row in found.rows.items() if told is not None or at not in again}
        found.rows = {at: row for at, row in numbers.items() if at not in found.lost} | kept
        self.note_changes(number, found, prompt + sampled, cached or 0)
        found.tokens, found.calls = prompt + sampled, [*found.calls, f"e{number}"]
        found.latest, found.rollout = number, rollout

    def overtaken(self, sequence: PlainSequence, tokens: list[int], start: int) -> bool:
        return any(at in sequence.rows and self.is_changed(sequence, tokens, at) for at in range(start))

    def is_changed(self, sequence: PlainSequence, tokens: list[int], at: int) -> bool:
        return self.changed.get(tuple(tokens[: at + 1]), -1) > sequence.latest

    def note_changes(self, number: int, found: PlainSequence, tokens: list[int], at_hand: int) -> None:
        """Compares each row with what the last turn before knows that has the token too."""
        for at in range(len(tokens)):
            passed = [each for each in self.sequences if each.tokens[: at + 1] == tokens[: at + 1]]
            if passed:
                latest = max(passed, key=lambda each: each.latest)
                now, before = found.rows.get(at), latest.rows.get(at)
                is_untold = now is None or before is None
                if at >= at_hand if is_untold else now != before:
                    self.changed[tuple(tokens[: at + 1])] = number

    def plain(self, sequence: OpenSequence) -> PlainSequence:
        return self.sequences[self.forest.sequences.index(sequence)]

    @staticmethod
    def taken_over(parent: PlainSequence, told: dict[int, int], start: int, shared: int) -> dict[int, int]:
        own = {at: told[at] for at in range(start, shared) if at in told}
        agree = all(parent.rows.get(at, number) == number for at, number in own.items())
        before = {at: parent.rows[at] for at in range(start) if at in parent.rows}
        return before if agree and len(before) == start else {}


@st.composite
def routed_conversations(draw: st.DrawFn) -> list[tuple[Asked, RoutedRows | None, int | None]]:
    """Turns with all rows, the last ones or none; some were computed anew and some differ in one row."""
    found = []
    for asked in draw(conversations()):
        prompt, sampled, _ = asked
        start = draw(st.just(0) | st.integers(0, len(prompt)))
        numbers = [token + 10 * draw(EPOCHS) for token in (prompt + sampled)[start:-1]]
        told = rows(*numbers, start=start) if numbers and draw(st.integers(0, 4)) else None
        found.append((asked, told, draw(st.none() | st.just(len(prompt)) | st.integers(0, len(prompt)))))
    return found


EPOCHS = st.sampled_from([0] * 12 + [1])


@settings(max_examples=300)
@given(routed_conversations())
def test_forest_compares_routing_as_comparing_every_row_would(
    turns: list[tuple[Asked, RoutedRows | None, int | None]],
) -> None:
    plain = PlainForest()
    for number, (asked, told, cached) in enumerate(turns):
        plain.follow(number, asked, told, cached)
    for sequence, expected in zip(plain.forest.sequences, plain.sequences, strict=True):
        assert (sequence.tokens_T.tolist(), calls(sequence)) == (expected.tokens, expected.calls)
        known = [expected.rows.get(at) for at in range(len(expected.tokens) - 1)]
        assert routing(sequence) == known


def with_images(*turns: tuple[list[int], list[int], tuple[PromptImage, ...]]) -> TrajectoryForest:
    forest = TrajectoryForest()
    for number, (prompt_ids, sampled_ids, images) in enumerate(turns):
        forest.add(replace(turn(number, (prompt_ids, sampled_ids, None)), images=images))
    return forest


RED, BLUE, GREEN = prompt_image("red", 1, 2), prompt_image("blue", 1, 2), prompt_image("green", 5, 1)


def test_the_same_picture_behind_the_same_tokens_goes_on() -> None:
    (sequence,) = with_images(([1, 9, 9], [3], (RED,)), ([1, 9, 9, 3, 4, 9], [5], (RED, GREEN))).sequences
    assert (calls(sequence), sequence.images) == (["e0", "e1"], (RED, GREEN))


def test_another_picture_behind_the_same_tokens_starts_a_sequence() -> None:
    first, second = with_images(([1, 9, 9], [3], (RED,)), ([1, 9, 9, 3, 4], [5], (BLUE,))).sequences
    assert (second.other_images, second.parent, second.shared_tokens) == (first.turns[0], first, 1)


def test_of_sequences_with_the_same_tokens_the_one_with_the_same_picture_goes_on() -> None:
    red, blue = with_images(
        ([1, 9, 9], [3], (RED,)),
        ([1, 9, 9], [3], (BLUE,)),
        ([1, 9, 9, 3, 4], [5], (RED,)),
        ([1, 9, 9, 3, 4], [5], (BLUE,)),
    ).sequences
    assert (calls(red), calls(blue)) == (["e0", "e2"], ["e1", "e3"])


def test_a_shorter_sequence_goes_on_where_the_longest_has_another_picture() -> None:
    long, short = with_images(
        ([1, 2, 3], [9], ()),
        ([1], [2], ()),
        ([1, 2, 3, 9, 4], [5], (prompt_image("red", 3, 1),)),
    ).sequences
    assert (calls(long), calls(short)) == (["e0"], ["e1", "e2"])


def with_media(*turns: tuple[list[int], list[int], tuple[bytes, ...]]) -> list[OpenSequence]:
    forest = TrajectoryForest()
    for number, (prompt_ids, sampled_ids, media) in enumerate(turns):
        forest.add(replace(turn(number, (prompt_ids, sampled_ids, None)), other_media=media))
    return forest.sequences


def test_the_same_video_behind_the_same_tokens_goes_on() -> None:
    (sequence,) = with_media(([1, 9], [3], (b"a",)), ([1, 9, 3, 9], [5], (b"a", b"b")))
    assert (calls(sequence), sequence.other_media) == (["e0", "e1"], (b"a", b"b"))


@pytest.mark.parametrize("media", [(), (b"b",), (b"b", b"a")])
def test_another_video_behind_the_same_tokens_starts_a_sequence_without_a_parent(
    media: tuple[bytes, ...],
) -> None:
    first, second = with_media(([1, 9], [3], (b"a",)), ([1, 9, 3, 9], [5], media))
    assert second.refusal is not None
    assert (second.refusal.sequence, second.refusal.cause) == (first, "image_changed")
    assert second.parent is None
