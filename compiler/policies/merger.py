"""What takes in the turns of a group and makes sequences of them."""

from typing import Protocol

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
