"""Rewards that were posted while the harness ran, on the sequences that they are for.

The most specific one counts: for the sequence, for its rollout, for its whole group; among equals the last.
"""

from collections.abc import Iterable
from dataclasses import replace

from turnstile.addon.tracelog.records import Reward
from turnstile.compiler.sequence import TrainingSequence

Target = tuple[str | None, str | None]  # rollout, sequence


class GroupRewards:
    """The rewards of one group, given in the order in which they were posted."""

    def __init__(self, rewards: Iterable[Reward]) -> None:
        self._latest: dict[Target, Reward] = {}
        for reward in rewards:
            rollout_id = None if reward.sequence_id is not None else reward.rollout_id
            self._latest[rollout_id, reward.sequence_id] = reward

    def on(self, sequence: TrainingSequence) -> TrainingSequence:
        """The sequence with its reward and what was posted with it; as it is when there is none."""
        targets: list[Target] = [(None, sequence.sequence_id), (None, None)]
        if sequence.rollout_id is not None:
            targets.insert(1, (sequence.rollout_id, None))
        reward = next((self._latest[target] for target in targets if target in self._latest), None)
        if reward is None:
            return sequence
        return replace(sequence, reward=reward.reward, metadata={**sequence.metadata, **reward.metadata})
