"""Rows of routed experts: row i names the experts that token i was sent to, layer by layer."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

type Experts = NDArray[np.integer]
"""[rows, layers, experts a token], of the smallest type that holds the ids: uint8 or uint16."""


@dataclass(frozen=True, slots=True, eq=False)
class RoutedRows:
    """The rows of consecutive tokens as one answer told them."""

    start: int  # index of the first row's token
    experts: Experts
    has_shape: bool = True
    """False: layers and experts a token are unknown, and `experts` is [rows, values of a row, 1]."""

    @property
    def end(self) -> int:
        """Index behind the last row's token."""
        return self.start + len(self.experts)


class RowDifference(NamedTuple):
    """A row in which two tellings name other experts."""

    row: int
    layer: int | None  # None: where the shape is unknown, or not the same on both sides
    before: list[int]  # expert ids, sorted
    now: list[int]


def narrowed(experts: Experts) -> Experts:
    """The same ids, from 0 to 65,535, in the smallest type that holds them all."""
    return experts.astype(np.uint8 if int(experts.max(initial=0)) < 1 << 8 else np.uint16)
