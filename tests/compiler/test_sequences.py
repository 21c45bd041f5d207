from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.turns import turn
from turnstile.compiler.causes import Explanation
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.sequence import Call, Parent, TrainingSequence
from turnstile.compiler.sequences import training_sequences
from turnstile.compiler.turn import Turn

NAN = float("nan")


def compiled(*turns: Turn, explanations: list[Explanation] | None = None) -> list[TrainingSequence]:
    forest = TrajectoryForest()
    for added in turns:
        forest.add(added)
    given_ = explanations or [Explanation("history_rewritten", None)] * len(forest.sequences)
    return list(training_sequences(forest.sequences, given_, forest.sequences))


def test_turns_become_one_sequence() -> None:
    first = turn(1, [1, 2], [3, 4], rollout_id="r", sampling={"temperature": 0.5}, logprobs=[-0.5, 0.0])
    second = turn(2, [1, 2, 3, 4, 5], [6], finish_reason="length", logprobs=[-0.25])
    (sequence,) = compiled(first, second)
    assert (sequence.sequence_id, sequence.group_id, sequence.rollout_id) == ("e1.0", "g", "r")
    assert sequence.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert sequence.logprobs.tolist() == [0.0, 0.0, -0.5, 0.0, 0.0, -0.25]
    assert sequence.segment_info == ((False, 2), (True, 2), (False, 1), (True, 1))
    assert sequence.exchanges == (Call("e1", 0), Call("e2", 0))
    assert (sequence.finish_reasons, sequence.sampling) == (("stop", "length"), ({"temperature": 0.5}, {}))
    assert (sequence.weight_versions, sequence.flags, sequence.parent) == ((), (), None)
    assert (sequence.reward, sequence.metadata, sequence.images) == (None, {}, ())


def test_what_two_turns_sampled_stays_apart_without_context_between() -> None:
    (sequence,) = compiled(turn(1, [1], [2]), turn(2, [1, 2], [3]))
    assert sequence.segment_info == ((False, 1), (True, 1), (True, 1))


def test_sampled_ids_without_a_logprob_are_context() -> None:
    first = turn(1, [1], [2, 3, 4, 5], logprobs=[NAN, -0.5, NAN, NAN], flags=("logprobs_partial",))
    (sequence,) = compiled(first, turn(2, [1, 2, 3, 4, 5, 6], [7]))
    assert sequence.segment_info == ((False, 2), (True, 1), (False, 3), (True, 1))
    assert sequence.logprobs.tolist() == [0.0, 0.0, -0.5, 0.0, 0.0, 0.0, -0.5]
    assert sequence.flags == ("logprobs_partial",)


def versions(*turns: Turn) -> tuple[tuple[int, str], ...]:
    (sequence,) = compiled(*turns)
    return sequence.weight_versions


def test_versions_that_were_read_apart_from_the_answers_stand_in_the_metadata() -> None:
    (sequence,) = compiled(
        turn(1, [1], [2], version_read="7"),
        turn(2, [1, 2, 3], [4], version_read="7"),
        turn(3, [1, 2, 3, 4, 5], [6], weight_spans=((0, "8"),)),
        turn(4, [1, 2, 3, 4, 5, 6, 7], [8], version_read="9"),
    )
    assert sequence.metadata == {"weight_version_read": [[0, "7"], [4, ""], [6, "9"]]}
    assert sequence.weight_versions == ((0, ""), (4, "8"), (6, ""))


def test_a_turn_gives_its_version_to_its_context_and_its_sampled_ids() -> None:
    first = turn(1, [1, 2], [3], weight_spans=((0, "7"),))
    assert versions(first) == ((0, "7"),)
    assert versions(first, turn(2, [1, 2, 3, 4], [5], weight_spans=((0, "8"),))) == ((0, "7"), (3, "8"))
    assert versions(first, turn(2, [1, 2, 3, 4], [5], weight_spans=((0, "7"),))) == ((0, "7"),)


def test_a_span_within_a_generation_begins_at_its_sampled_id() -> None:
    first = turn(1, [1, 2], [3, 4, 5], weight_spans=((0, "7"), (2, "8")))
    assert versions(first) == ((0, "7"), (4, "8"))
    assert versions(first, turn(2, [1, 2, 3, 4, 5], [6], weight_spans=((0, "8"),))) == ((0, "7"), (4, "8"))


def test_an_unknown_version_between_known_ones_is_empty() -> None:
    first, unknown = turn(1, [1], [2], weight_spans=((0, "7"),)), turn(2, [1, 2, 3], [4])
    third = turn(3, [1, 2, 3, 4, 5], [6], weight_spans=((0, "7"),))
    assert versions(first, unknown, third) == ((0, "7"), (2, ""), (4, "7"))
    assert versions(turn(1, [1], [2]), turn(2, [1, 2, 3], [4], weight_spans=((0, "7"),))) == (
        (0, ""),
        (2, "7"),
    )
    assert versions(turn(1, [1], [2]), unknown) == ()


def test_a_split_names_the_sequence_that_it_left() -> None:
    _, second = compiled(turn(1, [1, 2], [3, 4]), turn(2, [1, 2, 3, 5], [6], choice=1))
    assert second.sequence_id == "e2.1"
    assert second.parent == Parent("e1.0", 3, "history_rewritten")


def test_the_turn_that_explains_a_split_names_the_parent_where_it_shares_as_much() -> None:
    own, other = turn(1, [1, 2], [3]), turn(2, [1, 2], [4])
    split = turn(3, [1, 2, 5], [6])
    causes = [
        Explanation("new_prompt", None),
        Explanation("sibling", own),
        Explanation("retokenized", own),
    ]
    assert compiled(own, other, split, explanations=causes)[2].parent == Parent("e1.0", 2, "retokenized")
    causes[2] = Explanation("retokenized", other)
    assert compiled(own, other, split, explanations=causes)[2].parent == Parent("e2.0", 2, "retokenized")


def test_the_forests_parent_stays_where_it_shares_more() -> None:
    about, parent = turn(1, [1, 2, 7], [8]), turn(2, [1, 2, 3, 4], [5])
    causes = [Explanation("new_prompt", None)] * 2 + [Explanation("retokenized", about)]
    _, _, split = compiled(about, parent, turn(3, [1, 2, 3, 9], [6]), explanations=causes)
    assert split.parent == Parent("e2.0", 3, "retokenized")


def test_the_turn_that_explains_a_split_names_the_parent_where_it_shares_more() -> None:
    own, other = turn(1, [1, 50], [52], rollout_id="a"), turn(2, [1, 2, 3], [5], rollout_id="b")
    causes = [Explanation("new_prompt", None)] * 2 + [Explanation("sibling", other)]
    sample = turn(3, [1, 2, 3], [6], rollout_id="a")
    assert compiled(own, other, sample, explanations=causes)[2].parent == Parent("e2.0", 3, "sibling")


def test_what_two_sequences_share_counts_to_their_ends() -> None:
    turns = turn(1, [1], [2]), turn(2, [1], [2]), turn(3, [1, 2, 3], [4]), turn(4, [1, 2, 3], [5])
    assert [each.tokens.tolist() for each in compiled(*turns)] == [[1, 2, 3, 5], [1, 2, 3, 4]]
    assert compiled(*turns)[1].parent == Parent("e1.0", 3, "history_rewritten")


def test_a_prompt_that_shares_nothing_has_no_parent() -> None:
    _, second = compiled(turn(1, [1], [2]), turn(2, [3], [4]))
    assert second.parent is None


def test_flags_of_all_turns_are_sorted_and_once() -> None:
    first = turn(1, [1], [2], flags=("undelivered", "aborted"), weight_spans=((0, "7"),))
    second = turn(2, [1, 2, 3], [4], flags=("aborted",), weight_spans=((0, "8"),), cached_tokens=2)
    (sequence,) = compiled(first, second)
    assert sequence.flags == ("aborted", "stale_cache", "undelivered")


def test_an_unknown_finish_reason_is_empty() -> None:
    assert compiled(turn(1, [1], [2], finish_reason=None))[0].finish_reasons == ("",)


@st.composite
def rollouts(draw: st.DrawFn) -> list[Turn]:
    """Turns of one growing sequence; some logprobs are unknown."""
    tokens, turns = [1], []
    for number in range(draw(st.integers(1, 5))):
        prompt = tokens + draw(st.lists(st.integers(1, 9), max_size=3))
        sampled = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
        values: Any = st.lists(
            st.sampled_from([-0.5, 0.0, NAN]), min_size=len(sampled), max_size=len(sampled)
        )
        turns.append(turn(number, prompt, sampled, logprobs=draw(values)))
        tokens = prompt + sampled
    return turns


@given(rollouts())
def test_every_token_is_in_one_segment_and_trained_where_its_logprob_is_known(turns: list[Turn]) -> None:
    (sequence,) = compiled(*turns)
    known = np.full(len(sequence.tokens), NAN)
    for each in turns:
        known[len(each.prompt_ids) : len(each.prompt_ids) + len(each.sampled_ids)] = each.logprobs
    assert sequence.loss_mask.tolist() == (~np.isnan(known)).tolist()
    assert sequence.logprobs.tolist() == np.nan_to_num(known).tolist()
    assert sum(length for _, length in sequence.segment_info) == len(sequence.tokens)
    assert min(length for _, length in sequence.segment_info) > 0
