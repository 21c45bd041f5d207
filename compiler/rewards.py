"""Rewards on the sequences that they are for: those in the log, and those of a file that wins over the log.

The most specific one counts: for the sequence, for its rollout, for its whole group; among equals the last.
What a reward says of itself stands in the sequence's metadata, but for the RESERVED keys: under these stands
only what was recorded.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnstile.addon.tracelog.records import Reward
from turnstile.compiler.finding import Finding
from turnstile.compiler.sequence import TrainingSequence

RESERVED = ("group", "policy", "weight_version_read")  # keys of a sequence's metadata

NO_SEQUENCE = "of which these logs give no sequence"
MERGED = "whose turns all went on sequences of other rollouts: name one of these, or their rollout"

Target = tuple[str | None, str | None]  # rollout, sequence
RewardsByGroup = Mapping[str, Sequence["GivenReward"]]


class GivenReward(NamedTuple):
    """A reward, and where it stands."""

    reward: Reward
    file: str  # name of the log, or of the file of rewards
    line: int | None = None  # of the file of rewards

    @property
    def target(self) -> str:
        """What it is for, in words."""
        reward, group = self.reward, f"group {self.reward.group_id}"
        if reward.sequence_id is not None:
            return f"sequence {reward.sequence_id} of {group}"
        return group if reward.rollout_id is None else f"rollout {reward.rollout_id} of {group}"

    def unmatched(self, target: str, why: str = NO_SEQUENCE) -> Finding:
        """That there is nothing which the reward could be for."""
        return self.warning("unmatched_reward", f"a reward for {target}, {why}")

    def warning(self, kind: str, message: str) -> Finding:
        """Something about it is doubtful."""
        where = "" if self.line is None else f"line {self.line}: "
        return Finding(kind, "warning", None, None, self.file, None, where + message)


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
        said = {key: value for key, value in given.reward.metadata.items() if key not in RESERVED}
        return replace(sequence, reward=given.reward.reward, metadata={**sequence.metadata, **said})

    def unmatched(
        self,
        rollout_ids: Collection[str | None],
        sequence_ids: Collection[str],
        merged: Collection[str | None] = (),
    ) -> list[Finding]:
        """A finding for each rollout and sequence with a reward that is not among these.

        `merged` are the rollouts with turns in any sequence, those of other rollouts included.
        """
        found = []
        for source in self._sources:
            for (rollout_id, sequence_id), given in source.items():
                if sequence_id is not None and sequence_id not in sequence_ids:
                    found.append(given.unmatched(given.target))
                elif rollout_id is not None and rollout_id not in rollout_ids:
                    why = MERGED if rollout_id in merged else NO_SEQUENCE
                    found.append(given.unmatched(given.target, why))
        return found

    def reserved(self) -> Iterator[Finding]:
        """A finding for each reward with metadata under a reserved key, which is left out."""
        for source in self._sources:
            for given in source.values():
                if keys := ", ".join(key for key in RESERVED if key in given.reward.metadata):
                    message = f"the metadata of a reward for {given.target} holds {keys}: left out, for "
                    message += "there stands what was recorded; take another key"
                    yield given.warning("reward_metadata", message)


def _latest(rewards: Iterable[GivenReward]) -> dict[Target, GivenReward]:
    latest: dict[Target, GivenReward] = {}
    for given in rewards:
        sequence_id = given.reward.sequence_id
        latest[None if sequence_id is not None else given.reward.rollout_id, sequence_id] = given
    return latest
