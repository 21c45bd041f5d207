"""Rewards on the sequences that they are for: those in the log, and those of a file that wins over the log.

The most specific one counts: for the sequence, for its rollout, for its whole group; among equals the last.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnstile.addon.tracelog.records import Reward
from turnstile.compiler.finding import Finding
from turnstile.compiler.sequence import TrainingSequence

Target = tuple[str | None, str | None]  # rollout, sequence
RewardsByGroup = Mapping[str, Sequence["GivenReward"]]


class GivenReward(NamedTuple):
    """A reward, and where it stands."""

    reward: Reward
    file: str  # name of the log, or of the file of rewards
    line: int | None = None  # of the file of rewards

    def unmatched(self, target: str) -> Finding:
        """That there is nothing which the reward could be for."""
        where = "" if self.line is None else f"line {self.line}: "
        message = f"{where}a reward for {target}, of which these logs give no sequence"
        return Finding("unmatched_reward", "warning", None, None, self.file, None, message)


class GroupRewards:
    """The rewards of one group, each list in the order in which they were given."""

    def __init__(self, of_log: Iterable[GivenReward], of_file: Iterable[GivenReward] = ()) -> None:
        self._sources = [_latest(of_file), _latest(of_log)]

    def on(self, sequence: TrainingSequence) -> TrainingSequence:
        """The sequence with its reward and what was given with it; as it is when there is none."""
        targets: list[Target] = [(None, sequence.sequence_id), (None, None)]
        if sequence.rollout_id is not None:
            targets.insert(1, (sequence.rollout_id, None))
        found = (source[target] for source in self._sources for target in targets if target in source)
        given = next(found, None)
        if given is None:
            return sequence
        reward = given.reward
        return replace(sequence, reward=reward.reward, metadata={**sequence.metadata, **reward.metadata})

    def unmatched(self, rollout_ids: Collection[str | None], sequence_ids: Collection[str]) -> list[Finding]:
        """A finding for each rollout and sequence with a reward that is not among these."""
        found = []
        for source in self._sources:
            for (rollout_id, sequence_id), given in source.items():
                of_group = f"of group {given.reward.group_id}"
                if sequence_id is not None and sequence_id not in sequence_ids:
                    found.append(given.unmatched(f"sequence {sequence_id} {of_group}"))
                elif rollout_id is not None and rollout_id not in rollout_ids:
                    found.append(given.unmatched(f"rollout {rollout_id} {of_group}"))
        return found


def _latest(rewards: Iterable[GivenReward]) -> dict[Target, GivenReward]:
    latest: dict[Target, GivenReward] = {}
    for given in rewards:
        sequence_id = given.reward.sequence_id
        latest[None if sequence_id is not None else given.reward.rollout_id, sequence_id] = given
    return latest
