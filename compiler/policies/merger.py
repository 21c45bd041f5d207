"""What takes in the turns of a group and makes sequences of them."""

from typing import Protocol

from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn


class Merger(Protocol):
    """Takes in the turns of one group in causal order."""

    @property
    def sequences(self) -> list[OpenSequence]:
        """In the order in which they were started."""

    def add(self, turn: Turn, rows: RoutedRows | None = None) -> OpenSequence | None:
        """Extends a sequence or starts one; gives the one that it started. `rows` is the turn's routing."""

    def note_unread(self) -> None:
        """Takes in that what was computed for an exchange is unknown."""

    def note_computed(self, rollout_id: str | None, prompt_ids: Tokens | None, at_hand: int) -> None:
        """Takes in what was computed for an answer that is no turn; see Computed."""
