"""Where a sequence was routed otherwise than its parent, and which rows a page holds.

Row i names the experts of token i; their order does not count. Rows can be compared where both sequences
know theirs, for the tokens that they share.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.routing.rows import Experts, RowDifference
from turnstile.compiler.sequence import TrainingSequence

MAX_ROW_BYTES = 32 << 20
"""Bytes of rows in one page, before packing."""


@dataclass(frozen=True, slots=True, eq=False)
class RoutingChanges:
    """A sequence's rows against its parent's."""

    layers_R: NDArray[np.uint8]  # of each row compared: how many layers name other experts, 255 for more
    first: RowDifference | None


NOTHING_COMPARED = RoutingChanges(np.empty(0, np.uint8), None)


def routing_changes(
    sequence: TrainingSequence, parent: TrainingSequence | None, shared: int
) -> RoutingChanges:
    """Compares the rows of the `shared` first tokens."""
    if parent is None or sequence.routed_experts is None or parent.routed_experts is None:
        return NOTHING_COMPARED
    before, now = parent.routed_experts[:shared], sequence.routed_experts[:shared]
    if before.shape[1:] != now.shape[1:]:
        return NOTHING_COMPARED
    rows = min(len(before), len(now))
    differs_RL = _other_sets(before[:rows], now[:rows])
    layers_R = np.minimum(differs_RL.sum(axis=1), 255).astype(np.uint8)
    if not layers_R.any():
        return RoutingChanges(layers_R, None)
    row, layer = np.argwhere(differs_RL)[0].tolist()
    one, other = np.sort(before[row, layer]), np.sort(now[row, layer])
    return RoutingChanges(layers_R, RowDifference(row, layer, one.tolist(), other.tolist()))


def _other_sets(before: Experts, now: Experts) -> NDArray[np.bool_]:
    """[rows, layers]; only rows that are not the same as they stand are sorted."""
    differs = np.zeros(before.shape[:2], np.bool_)
    at = np.flatnonzero((before != now).any(axis=(1, 2)))
    differs[at] = (np.sort(before[at], axis=2) != np.sort(now[at], axis=2)).any(axis=2)
    return differs


def row_named_in(message: str) -> int | None:
    """The row that a `routing_changed` finding names."""
    found = re.search(r"\brows? (\d+)", message)
    return int(found[1]) if found else None


def sequences_with_rows(
    sequences: Sequence[TrainingSequence], parents: Sequence[int | None], limit_bytes: int = MAX_ROW_BYTES
) -> set[int]:
    """The indices of the sequences whose rows the page holds, up to a limit.

    Those that were started by another routing come first, with their parents; then the others in order.
    """
    first = list[int]()
    for index, (sequence, parent) in enumerate(zip(sequences, parents, strict=True)):
        if sequence.parent is not None and sequence.parent.cause == "routing_changed":
            first += [index] if parent is None else [parent, index]
    kept, size = set[int](), 0
    for index in dict.fromkeys([*first, *range(len(sequences))]):
        experts = sequences[index].routed_experts
        if experts is not None and size + experts.nbytes <= limit_bytes:
            kept.add(index)
            size += experts.nbytes
    return kept
