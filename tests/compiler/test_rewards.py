from dataclasses import replace
from typing import Any

import numpy as np

from turnstile.addon.tracelog.records import Reward
from turnstile.compiler.rewards import GivenReward, GroupRewards
from turnstile.compiler.sequence import Call, TrainingSequence


def sequence(rollout_id: str | None = "r") -> TrainingSequence:
    return TrainingSequence(
        sequence_id="e1.0",
        group_id="g",
        rollout_id=rollout_id,
        tokens=np.array([1, 2], np.int32),
        logprobs=np.array([0.0, -0.5]),
        segment_info=((False, 1), (True, 1)),
        weight_versions=(),
        exchanges=(Call("e1", 0),),
        finish_reasons=("stop",),
        sampling=({},),
    )


def reward(
    value: float, rollout_id: str | None = None, sequence_id: str | None = None, **metadata: Any
) -> Reward:
    return Reward(
        group_id="g", rollout_id=rollout_id, sequence_id=sequence_id, reward=value, at=0.0, metadata=metadata
    )


def given(*rewards: Reward) -> list[GivenReward]:
    return [GivenReward(each, "a.tslog") for each in rewards]


def rewarded(*rewards: Reward, on: TrainingSequence | None = None) -> tuple[float | None, Any]:
    found = GroupRewards(given(*rewards)).on(on or sequence())
    return found.reward, found.metadata


def test_a_reward_comes_with_its_metadata() -> None:
    assert rewarded(reward(1.0, "r", tests_passed=3)) == (1.0, {"tests_passed": 3})


def test_a_reward_leaves_what_the_sequence_says_of_itself() -> None:
    said = replace(sequence(), metadata={"weight_version_read": [[0, "7"]]})
    assert rewarded(reward(1.0, tests_passed=3), on=said) == (
        1.0,
        {"weight_version_read": [[0, "7"]], "tests_passed": 3},
    )
    assert rewarded(on=said) == (None, {"weight_version_read": [[0, "7"]]})


def test_the_most_specific_reward_counts() -> None:
    for_group, for_rollout, for_sequence = reward(1.0), reward(2.0, "r"), reward(3.0, None, "e1.0")
    assert rewarded(for_group) == (1.0, {})
    assert rewarded(for_rollout, for_group) == (2.0, {})
    assert rewarded(for_sequence, for_rollout, for_group) == (3.0, {})


def test_of_two_for_the_same_the_last_counts() -> None:
    assert rewarded(reward(1.0, "r"), reward(0.5, "r")) == (0.5, {})
    assert rewarded(reward(1.0, "other", "e1.0"), reward(0.5, "r", "e1.0")) == (0.5, {})


def test_a_reward_for_something_else_does_not_count() -> None:
    assert rewarded(reward(1.0, "other"), reward(2.0, "r", "e2.0")) == (None, {})
    assert rewarded(reward(1.0, "r"), on=sequence(rollout_id=None)) == (None, {})


def test_what_a_file_says_wins_over_all_that_the_log_says() -> None:
    in_log = given(reward(1.0, None, "e1.0", of="log"), reward(2.0))
    for of_file in (reward(3.0, of="file"), reward(3.0, "r", of="file")):
        found = GroupRewards(in_log, given(of_file)).on(sequence())
        assert (found.reward, found.metadata) == (3.0, {"of": "file"})
    found = GroupRewards(in_log, given(reward(3.0, "other"))).on(sequence())
    assert found.reward == 1.0


def test_a_reward_that_is_for_nothing_is_found() -> None:
    rewards = GroupRewards(
        given(reward(1.0), reward(1.0, "r"), reward(1.0, "gone"), reward(2.0, "gone")),
        [GivenReward(reward(1.0, None, "e9.0"), "rewards.jsonl", line=7)],
    )
    assert [(found.kind, found.log, found.message) for found in rewards.unmatched({"r"}, {"e1.0"})] == [
        (
            "unmatched_reward",
            "rewards.jsonl",
            "line 7: a reward for sequence e9.0 of group g, of which these logs give no sequence",
        ),
        (
            "unmatched_reward",
            "a.tslog",
            "a reward for rollout gone of group g, of which these logs give no sequence",
        ),
    ]


def test_a_rollout_that_went_on_sequences_of_others_is_said_so() -> None:
    rewards = GroupRewards(given(reward(1.0, "b"), reward(1.0, "gone")))
    merged, gone = rewards.unmatched({"a"}, {"e1.0"}, {"a", "b"})
    assert merged.message == (
        "a reward for rollout b of group g, whose turns all went on sequences of other rollouts: "
        "name one of these, or their rollout"
    )
    assert (merged.kind, "give no sequence" in gone.message) == ("unmatched_reward", True)


def test_what_was_recorded_is_not_overwritten_by_a_reward() -> None:
    read = {"weight_version_read": [[0, "7"]]}
    claims = {"weight_version_read": "x", "policy": "p", "group": "mine", "tests_passed": 3}
    claimed = reward(1.0, **claims)
    assert rewarded(claimed, on=replace(sequence(), metadata=read)) == (1.0, {**read, "tests_passed": 3})
    (found,) = GroupRewards(given(claimed, reward(1.0, "r", tests_passed=3))).reserved()
    assert (found.kind, found.severity, found.log) == ("reward_metadata", "warning", "a.tslog")
    assert found.message == (
        "the metadata of a reward for group g holds group, policy, weight_version_read: left out, for there "
        "stands what was recorded; take another key"
    )
