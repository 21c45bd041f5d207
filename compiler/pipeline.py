"""The passes of a compilation in their order; nothing else knows it.

    logs -> exchanges of a group -> turns -> forest -> training sequences

One group is held at a time. The findings of a group come in the order of its exchanges, those about whole
logs before all groups.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from turnstile.compiler.causes import Causes, Explanation
from turnstile.compiler.errors import UnknownPolicy
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.options import ImageOptions
from turnstile.compiler.images.placing import image_placer
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.policies.joining import joined, named_after
from turnstile.compiler.replay import Replay
from turnstile.compiler.rewards import GroupRewards
from turnstile.compiler.routing.outcome import lost_rows, routing_changes
from turnstile.compiler.routing.reading import RoutingReader
from turnstile.compiler.selection import EVERYTHING, Selection
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.sequences import training_sequences
from turnstile.compiler.turns import Readers, Texts, turns_of

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
    merged: Sequence[OpenSequence] = ()  # what the sequences are made of, in the same order
    explanations: Sequence[Explanation] = ()  # why each of them was started


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose."""

    policy: str = "strict"
    selection: Selection = EVERYTHING
    images: ImageOptions = field(default_factory=ImageOptions)

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise UnknownPolicy(f"there is no policy {self.policy!r}; there are {', '.join(POLICIES)}")


def compile_groups(
    replay: Replay, options: Options, progress: Progress = lambda exchanges: None
) -> Iterator[CompiledGroup]:
    """Compiles every group of `replay`, one after the other; each must be gone through before the next.

    Raises ImageOptionError, before anything is read, for folders that cannot be used.
    """
    routing = RoutingReader(options.images.model_config())
    with image_placer(options.images) as placer:
        for group_id in replay.groups:
            yield _compiled(group_id, replay, options, Readers(routing, placer), progress)


def _compiled(
    group_id: str, replay: Replay, options: Options, readers: Readers, progress: Progress
) -> CompiledGroup:
    policy = POLICIES[options.policy]
    merger = policy.merger()
    causes, texts = Causes(), Texts()
    explanations: list[Explanation] = []
    findings: list[Finding] = []
    exchanges = turns = 0
    for item in replay.exchanges_of(group_id):
        progress(1)
        if isinstance(item, Finding):
            findings.append(item)
            continue
        read = turns_of(item.exchange, item.log, item.offset, texts, item.versions_read, readers)
        findings += read.findings
        exchanges, turns = exchanges + 1, turns + len(read.turns)
        for turn in read.turns:
            if (started := merger.add(turn, read.routing.get(turn.choice))) is not None:
                explanations.append(causes.of_start(started, read.answers))
            causes.note(turn)
    merged = merger.sequences
    if policy.join is not None:
        merged, explanations = joined(merged, explanations, policy.join)
    findings += [*routing_changes(merged), *lost_rows(merged)]
    findings += options.selection.findings(merged)
    sequences = training_sequences(merged, explanations, options.selection)
    if policy.join is not None:
        sequences = map(partial(named_after, options.policy), sequences)
    rewarded = map(GroupRewards(replay.rewards_of(group_id)).on, sequences)
    whole = map(readers.images.with_processed, rewarded) if readers.images else rewarded
    return CompiledGroup(group_id, whole, findings, exchanges, turns, merged, explanations)
