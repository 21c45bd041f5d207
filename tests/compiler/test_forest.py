from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.images import prompt_image
from turnstile.compiler.forest import OpenSequence, TrajectoryForest
from turnstile.compiler.images.image import PromptImage
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


@settings(max_examples=500, deadline=None)
@given(conversations())
def test_forest_merges_as_comparing_every_pair_would(turns: list[Asked]) -> None:
    sequences = merged(*turns)
    got = [(sequence.tokens_T.tolist(), calls(sequence), sequence.shared_tokens) for sequence in sequences]
    assert got == by_comparing_all(turns)
    for sequence in sequences:
        if sequence.parent is not None:
            shared = sequence.parent.tokens_T[: sequence.shared_tokens]
            assert shared.tolist() == sequence.tokens_T[: sequence.shared_tokens].tolist()


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
