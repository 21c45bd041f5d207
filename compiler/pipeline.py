"""The passes of a compilation in their order; nothing else knows it.

    logs -> exchanges of a group -> turns -> forest -> training sequences

One group is held at a time. The findings of a group come in the order of its exchanges, those about whole
logs before all groups.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from turnstile.compiler.causes import Causes, Explanation
from turnstile.compiler.errors import UnknownPolicy
from turnstile.compiler.finding import Finding
from turnstile.compiler.group_metadata import with_group_metadata
from turnstile.compiler.length_limit import too_long, within
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.replay import Replay
from turnstile.compiler.rewards import GroupRewards, RewardsByGroup
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.sequences import sequence_id_of, training_sequences
from turnstile.compiler.turns import Texts, turns_of

Progress = Callable[[int], None]
"""Told how many more exchanges have been read."""


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """What one group gives."""

    group_id: str
    sequences: Iterator[TrainingSequence]  # to be gone through once
    findings: list[Finding]
    exchanges: int
    turns: int


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose."""

    policy: str = "strict"
    max_tokens: int | None = None  # longer sequences are left out
    rewards: RewardsByGroup = field(default_factory=dict)  # these win over those of the logs

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise UnknownPolicy(f"there is no policy {self.policy!r}; there are {', '.join(POLICIES)}")


def compile_groups(
    replay: Replay, options: Options, progress: Progress = lambda exchanges: None
) -> Iterator[CompiledGroup]:
    """Compiles every group of `replay`, one after the other."""
    for group_id in replay.groups:
        yield _compiled(group_id, replay, options, progress)


def _compiled(group_id: str, replay: Replay, options: Options, progress: Progress) -> CompiledGroup:
    merger = POLICIES[options.policy]()
    causes, texts = Causes(), Texts()
    explanations: list[Explanation] = []
    findings: list[Finding] = []
    exchanges = turns = 0
    for item in replay.exchanges_of(group_id):
        progress(1)
        if isinstance(item, Finding):
            findings.append(item)
            continue
        read = turns_of(item.exchange, item.log, item.offset, texts, item.versions_read)
        findings += read.findings
        exchanges, turns = exchanges + 1, turns + len(read.turns)
        for turn in read.turns:
            if (started := merger.add(turn)) is not None:
                explanations.append(causes.of_start(started, read.answers))
            causes.note(turn)
    findings += too_long(merger.sequences, options.max_tokens)
    sequences = within(training_sequences(merger.sequences, explanations), options.max_tokens)
    rewards = GroupRewards(replay.rewards_of(group_id), options.rewards.get(group_id, ()))
    firsts = [sequence.turns[0] for sequence in merger.sequences]
    findings += rewards.unmatched({turn.rollout_id for turn in firsts}, {*map(sequence_id_of, firsts)})
    described = with_group_metadata(map(rewards.on, sequences), replay.made(group_id))
    return CompiledGroup(group_id, described, findings, exchanges, turns)
