"""When the rows that a backend has at hand became others.

What its cache lost a backend computes again, maybe to other experts. From then on its answers to all turns
with the same tokens mean the new row, also those answers that do not tell it.
"""

import numpy as np
from numpy.typing import NDArray

type Mask = NDArray[np.bool_]


class RowChanges:
    """For consecutive tokens the last turn, by number, that made the row another one or an unknown one."""

    __slots__ = ("_turns", "latest")

    def __init__(self, turns: NDArray[np.int32] | None = None, latest: int = 0) -> None:
        self._turns = np.empty(0, np.int32) if turns is None else turns  # 0, or past the end: none
        self.latest = latest  # no turn behind that one changed any

    def note(self, changed: Mask, turn: int) -> None:
        """Turn number `turn`, from 1 on, changed these rows."""
        if changed.any():
            self._room_for(len(changed))
            self._turns[: len(changed)][changed] = turn
            self.latest = turn

    def note_span(self, start: int, end: int, turn: int) -> None:
        """Turn number `turn` changed the rows from `start` to before `end`."""
        if start < end:
            self._room_for(end)
            self._turns[start:end] = turn
            self.latest = turn

    def since(self, turn: int, count: int) -> Mask:
        """Which of the first `count` rows changed after turn number `turn`."""
        found = np.zeros(count, np.bool_)
        if self.latest <= turn:
            return found
        turns = self._turns[:count]
        found[: len(turns)] = turns > turn
        return found

    def cut(self, at: int) -> "RowChanges":
        """Keeps the first `at` tokens, and gives those behind them."""
        below = RowChanges(self._turns[at:].copy(), self.latest)
        self._turns = self._turns[:at].copy()
        return below

    def _room_for(self, count: int) -> None:
        more = count - len(self._turns)
        if more > 0:
            self._turns = np.concatenate((self._turns, np.zeros(more, np.int32)))
