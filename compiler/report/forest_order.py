"""The sequences of each group as trees, in the order in which they are read: each below the one it left."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.compiler.sequence import TrainingSequence


@dataclass(frozen=True, slots=True)
class Branch:
    """A sequence at its place in its group's tree."""

    index: int  # into the sequences as they were given
    depth: int  # 0 for one that left no other


@dataclass(frozen=True, slots=True)
class GroupForest:
    """The trees of one group, the branches of each below its root."""

    group_id: str
    branches: tuple[Branch, ...]


def parents_of(sequences: Sequence[TrainingSequence]) -> list[int | None]:
    """For each sequence the index of its parent; None where it has none or it does not stand before it."""
    places: dict[str, int] = {}
    parents = list[int | None]()
    for index, sequence in enumerate(sequences):
        parents.append(None if sequence.parent is None else places.get(sequence.parent.sequence_id))
        places[sequence.sequence_id] = index
    return parents


def forests(sequences: Sequence[TrainingSequence], parents: Sequence[int | None]) -> list[GroupForest]:
    """The groups in the order of their first sequences."""
    children: dict[int, list[int]] = {}
    roots: dict[str, list[int]] = {}
    for index, (sequence, parent) in enumerate(zip(sequences, parents, strict=True)):
        if parent is None or sequences[parent].group_id != sequence.group_id:
            roots.setdefault(sequence.group_id, []).append(index)
        else:
            children.setdefault(parent, []).append(index)
    return [GroupForest(group_id, tuple(_walked(first, children))) for group_id, first in roots.items()]


def _walked(roots: Sequence[int], children: dict[int, list[int]]) -> list[Branch]:
    """Depth first; a stack of its own, because a chain of splits can be longer than Python's."""
    branches, stack = list[Branch](), [Branch(root, 0) for root in reversed(roots)]
    while stack:
        branch = stack.pop()
        branches.append(branch)
        below = reversed(children.get(branch.index, ()))
        stack += [Branch(child, branch.depth + 1) for child in below]
    return branches
