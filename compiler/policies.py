"""How the turns of a group become sequences; each policy takes turns and shows the sequences so far.

strict        exact-prefix merging, see turnstile.compiler.forest
per-request   every turn is a sequence of its own: what merging saves can be seen against it
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn


class Merger(Protocol):
    """Takes in the turns of one group in causal order."""

    @property
    def sequences(self) -> list[OpenSequence]:
        """In the order in which they were started."""

    def add(self, turn: Turn, rows: RoutedRows | None = None) -> OpenSequence | None:
        """Extends a sequence or starts one; gives the one that it started. `rows` is the turn's routing."""


class PerRequest:
    """Merges nothing."""

    def __init__(self) -> None:
        self.sequences: list[OpenSequence] = []

    def add(self, turn: Turn, rows: RoutedRows | None = None) -> OpenSequence | None:
        """Starts a sequence."""
        started = TrajectoryForest().add(turn, rows)
        assert started is not None, "the first turn of a forest starts a sequence"
        self.sequences.append(started)
        return started


POLICIES: Mapping[str, Callable[[], Merger]] = {"strict": TrajectoryForest, "per-request": PerRequest}
