"""per-request: every turn is a sequence of its own, so that what merging saves can be seen.

Unlike strict it never extends a sequence: nothing is wrong, and each prompt is computed anew.
"""

from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn


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

    def note_unread(self) -> None:
        """Rows are never joined here."""

    def note_computed(self, rollout_id: str | None, prompt_ids: Tokens | None, at_hand: int) -> None:
        """Rows are never joined here."""
