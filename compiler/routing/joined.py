"""What a sequence knows of its routing: the rows of all its turns, put together.

A turn's answer has no row for the last token that it sampled; the next turn's prefill gives it. Of rows that
are told twice the first telling is kept. Rows that nobody told stay unknown, and so do rows that were
computed again before anybody told them: those of the first time are lost.
"""

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.routing.changes import Mask
from turnstile.compiler.routing.rows import Experts, RoutedRows, RowDifference

_FIRST_LOOK = 256  # rows; the next looks go twice as far each


class KnownRouting:
    """Rows by the index of their token; as good as empty until `add` is called."""

    def __init__(self) -> None:
        self._experts: Experts = np.empty((0, 0, 0), np.uint8)  # rows in use and spare ones
        self._known: Mask = np.empty(0, np.bool_)
        self._lost: Mask = np.empty(0, np.bool_)  # unless they are known; not all rows have an entry
        self.has_shape = True  # see RoutedRows
        self._last_difference = 0  # row that was found to differ last: others are likely to differ there too

    @property
    def is_empty(self) -> bool:
        """Whether no row was ever told."""
        return not len(self._known)

    @property
    def row_size(self) -> int:
        """Ids of a row."""
        _, layers, top_k = self._experts.shape
        return int(layers * top_k)

    def compute_again(self, start: int, end: int, changed: Mask, *, is_told: bool) -> None:
        """The backend computed the rows from `start` to before `end` anew, and those of `changed`.

        What is unknown of them stays unknown. So does what is known, unless the new rows are told and found
        to be the same.
        """
        changed = changed[:end]
        if start >= end and not changed.any():
            return
        again = np.zeros(end, np.bool_)
        again[: len(changed)] = changed
        again[start:] = True
        longer = np.zeros(max(len(self._lost), len(again)), np.bool_)
        longer[: len(self._lost)] = self._lost
        longer[: len(again)] |= again
        self._lost = longer
        if not is_told:
            self._known[: len(again)] &= ~again[: len(self._known)]

    def add(self, rows: RoutedRows) -> None:
        """Takes in the rows that are not known yet, nor lost."""
        self._make_room(rows)
        new = ~self._known[rows.start : rows.end]
        lost = self._lost[rows.start : rows.end]
        new[: len(lost)] &= ~lost
        at = int(new.argmax()) if new.any() else len(new)  # what is known lies before it, nearly always
        place, fresh = slice(rows.start + at, rows.end), new[at:]
        self._experts[place][fresh] = rows.experts[at:][fresh]
        self._known[place] |= fresh
        self.has_shape = self.has_shape and rows.has_shape

    def difference(self, rows: RoutedRows) -> RowDifference | None:
        """A row that is known on both sides and names other experts, whose order does not count.

        The first one, or the one that was found before.
        """
        if self.is_empty:
            return None
        if self._experts.shape[1:] != rows.experts.shape[1:]:
            return RowDifference(rows.start, None, [], [])
        start, end, size = rows.start, min(rows.end, len(self._known)), _FIRST_LOOK
        if start <= self._last_difference < end:
            at = self._last_difference
            if (found := self._difference_within(rows, at, at + 1)) is not None:
                return found
        while start < end:
            stop = min(start + size, end)
            if (found := self._difference_within(rows, start, stop)) is not None:
                self._last_difference = found.row
                return found
            start, size = stop, 2 * size
        return None

    def unlike(self, other: "KnownRouting", start: int, end: int, at_hand: int) -> Mask:
        """Which rows in [start, end) are others, or behind the first `at_hand` ones may be.

        Others: both know the row and name other experts. They may be: one of both does not know it.
        """
        both = np.zeros(end - start, np.bool_)
        stop = max(start, min(end, len(self._known), len(other._known)))
        known = both[: stop - start] = self._known[start:stop] & other._known[start:stop]
        found = ~both
        found[: max(0, at_hand - start)] = False
        if self._experts.shape[1:] != other._experts.shape[1:]:
            return found | both
        if other is not self:
            found[_differing(self._experts[start:stop], other._experts[start:stop], known)] = True
        return found

    def first_known(self, start: int, end: int) -> int | None:
        """The first known row from `start` on and before `end`."""
        known = np.flatnonzero(self._known[start:end])
        return start + int(known[0]) if len(known) else None

    def first_known_of(self, rows: Mask) -> int | None:
        """The first known row of these among the first ones."""
        known = np.flatnonzero(self._known[: len(rows)] & rows[: len(self._known)])
        return int(known[0]) if len(known) else None

    def first_unknown(self, count: int) -> int | None:
        """The first of the first `count` rows that is unknown."""
        unknown = np.flatnonzero(~self._known[:count])
        if len(unknown):
            return int(unknown[0])
        return len(self._known) if len(self._known) < count else None

    def beginning(self, count: int) -> RoutedRows | None:
        """The first `count` rows; None unless all of them are known."""
        if self.is_empty or self.first_unknown(count) is not None:
            return None
        return RoutedRows(0, self._experts[:count], self.has_shape)

    def _difference_within(self, rows: RoutedRows, start: int, stop: int) -> RowDifference | None:
        now = rows.experts[start - rows.start : stop - rows.start]
        before = self._experts[start:stop]
        rows_at = _differing(before, now, self._known[start:stop])
        if not len(rows_at):
            return None
        at = int(rows_at[0])
        one, other = np.sort(before[at]), np.sort(now[at])
        layer = int((one != other).any(axis=1).argmax())
        told_layer = layer if self.has_shape else None
        return RowDifference(start + at, told_layer, one[layer].tolist(), other[layer].tolist())

    def _make_room(self, rows: RoutedRows) -> None:
        if self.is_empty:
            self._experts = np.empty((0, *rows.experts.shape[1:]), rows.experts.dtype)
        dtype = np.result_type(self._experts, rows.experts)
        if rows.end > len(self._experts) or dtype != self._experts.dtype:
            spare = max(rows.end, 2 * len(self._known)) if len(self._known) else rows.end
            grown = np.empty((spare, *self._experts.shape[1:]), dtype)
            grown[: len(self._known)] = self._experts[: len(self._known)]
            self._experts = grown
        if rows.end > len(self._known):
            self._known = np.concatenate((self._known, np.zeros(rows.end - len(self._known), np.bool_)))


def _differing(before: Experts, now: Experts, known: Mask) -> NDArray[np.intp]:
    """Which rows name other experts now, whatever their order, of those that are `known`."""
    if np.array_equal(before, now):
        return np.empty(0, np.intp)
    at = np.flatnonzero((before != now).any(axis=(1, 2)) & known)
    differs: Mask = (np.sort(before[at], axis=2) != np.sort(now[at], axis=2)).any(axis=(1, 2))
    return at[differs]
