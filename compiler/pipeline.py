"""The passes of a compilation in their order; nothing else knows it.

    logs -> exchanges of a group -> turns -> forest -> training sequences

One group is held at a time. The findings of a group come in the order of its exchanges, those about whole
logs before all groups.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from turnstile.addon.tracelog.records import Group
from turnstile.compiler.causes import Causes, Explanation
from turnstile.compiler.errors import UnknownPolicy
from turnstile.compiler.finding import Finding
from turnstile.compiler.group_metadata import with_group_metadata
from turnstile.compiler.images.placing import image_placer
from turnstile.compiler.model_folders import ModelFolders
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.policies.joining import joined, named_after
from turnstile.compiler.replay import Replay, Replayed
from turnstile.compiler.rewards import GivenReward, GroupRewards, RewardsByGroup
from turnstile.compiler.routing.outcome import lost_rows, routing_changes
from turnstile.compiler.routing.reading import RoutingReader
from turnstile.compiler.selection import EVERYTHING, Selection
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.sequences import sequence_id_of, training_sequences
from turnstile.compiler.turn import Turn
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
    folders: ModelFolders = field(default_factory=ModelFolders)
    rewards: RewardsByGroup = field(default_factory=dict)  # these win over those of the logs

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise UnknownPolicy(f"there is no policy {self.policy!r}; there are {', '.join(POLICIES)}")


@dataclass(frozen=True, slots=True)
class Added:
    """What an exchange gave to its group."""

    turns: tuple[Turn, ...] = ()
    starts: tuple[tuple[OpenSequence, Explanation], ...] = ()  # the sequences that it started, and why
    findings: tuple[Finding, ...] = ()


class GroupPasses:
    """The passes over one group: takes its exchanges in causal order, shows what they have given so far."""

    def __init__(self, group_id: str, options: Options, readers: Readers) -> None:
        self._group_id, self._options, self._readers = group_id, options, readers
        self._policy = POLICIES[options.policy]
        self._merger = self._policy.merger()
        self._causes, self._texts = Causes(), Texts()
        self._explanations: list[Explanation] = []
        self._findings: list[Finding] = []
        self._exchanges = self._turns = 0

    def add(self, item: Replayed | Finding) -> Added:
        """Takes in an exchange that began after those before it, or what was found in the place of one."""
        if isinstance(item, Finding):
            self._findings.append(item)
            if item.severity == "error":
                self._merger.note_unread()
            return Added(findings=(item,))
        read = turns_of(item.exchange, item.log, item.offset, self._texts, item.versions_read, self._readers)
        self._findings += read.findings
        for each in read.computed:
            self._merger.note_computed(item.exchange.rollout_id, each.prompt_ids, each.at_hand)
        self._exchanges, self._turns = self._exchanges + 1, self._turns + len(read.turns)
        starts = list[tuple[OpenSequence, Explanation]]()
        for turn in read.turns:
            if (started := self._merger.add(turn, read.routing.get(turn.choice))) is not None:
                starts.append((started, self._causes.of_start(started, read.answers)))
            self._causes.note(turn)
        self._explanations += [why for _, why in starts]
        return Added(read.turns, tuple(starts), read.findings)

    def compiled(self, of_log: Sequence[GivenReward], made: Group | None) -> CompiledGroup:
        """What the exchanges give, with the group's rewards and what was said of it in the log.

        The sequences are to be gone through before more is taken in.
        """
        selection, join = self._options.selection, self._policy.join
        merged, explanations = self._merger.sequences, self._explanations
        if join is not None:
            merged, explanations = joined(merged, explanations, join)
        kept = [selection.of(sequence) for sequence in merged]
        lost = lost_rows(sequence for sequence in kept if sequence is not None)
        rewards = GroupRewards(of_log, self._options.rewards.get(self._group_id, ()))
        findings = [*self._findings, *routing_changes(merged), *lost, *selection.findings(merged, kept)]
        findings += [*_unmatched(rewards, merged), *rewards.reserved()]
        sequences = training_sequences(merged, explanations, kept)
        described = with_group_metadata(map(rewards.on, sequences), made)
        if join is not None:
            described = map(partial(named_after, self._options.policy), described)
        placer = self._readers.images
        whole = described if placer is None else map(placer.with_processed, described)
        counts = self._exchanges, self._turns
        return CompiledGroup(self._group_id, whole, findings, *counts, merged, explanations)


def _unmatched(rewards: GroupRewards, merged: Sequence[OpenSequence]) -> list[Finding]:
    """The rewards that are for none of these sequences."""
    firsts = [sequence.turns[0] for sequence in merged]
    rollout_ids = set().union(*(sequence.rollout_ids for sequence in merged))
    return rewards.unmatched(
        {turn.rollout_id for turn in firsts}, {*map(sequence_id_of, firsts)}, rollout_ids
    )


def compile_groups(
    replay: Replay, options: Options, progress: Progress = lambda exchanges: None
) -> Iterator[CompiledGroup]:
    """Compiles every group of `replay`, one after the other; each must be gone through before the next.

    Raises UnusableFolder, before anything is read, for folders that cannot be used.
    """
    with readers_for(options) as readers:
        for group_id in replay.groups:
            passes = GroupPasses(group_id, options, readers)
            for item in replay.exchanges_of(group_id):
                progress(1)
                passes.add(item)
            yield passes.compiled(replay.rewards_of(group_id), replay.made(group_id))


@contextmanager
def readers_for(options: Options) -> Iterator[Readers]:
    """What reads the routing and the images of a compilation. Raises UnusableFolder."""
    routing = RoutingReader(options.folders.model_config())
    with image_placer(options.folders) as placer:
        yield Readers(routing, placer)
