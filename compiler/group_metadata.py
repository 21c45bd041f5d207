"""What the user said of a group, on each of its sequences: `metadata["group"]`."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from turnstile.addon.tracelog.records import Group
from turnstile.compiler.sequence import TrainingSequence

KEY = "group"


def with_group_metadata(
    sequences: Iterable[TrainingSequence], group: Group | None
) -> Iterator[TrainingSequence]:
    """The sequences of one group with its metadata, as they are where it has none."""
    for sequence in sequences:
        if group is not None and group.metadata:
            yield replace(sequence, metadata={**sequence.metadata, KEY: group.metadata})
        else:
            yield sequence
