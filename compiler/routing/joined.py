"""What a sequence knows of its routing: the rows of all its turns, put together.

A turn's answer has no row for the last token that it sampled; the next turn's prefill gives it. Of rows that
are told twice the first telling is kept. Rows that nobody told stay unknown.
"""

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.routing.rows import Experts, RoutedRows, RowDifference

_FIRST_LOOK = 256  # rows; the next looks go twice as far each


class KnownRouting:
    """Rows by the index of their token; as good as empty until `add` is called."""

    def __init__(self) -> None:
        self._experts: Experts = np.empty((0, 0, 0), np.uint8)  # rows in use and spare ones
        self._known: NDArray[np.bool_] = np.empty(0, np.bool_)
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

    def add(self, rows: RoutedRows, computed_again: tuple[int, int] = (0, 0)) -> None:
        """Takes in the rows that are not known yet.

        Those in `computed_again`, [start, end), stay unknown: they are not the rows of the first time.
        """
        self._make_room(rows)
        new = ~self._known[rows.start : rows.end]
        again_start, again_end = (max(0, index - rows.start) for index in computed_again)
        new[again_start:again_end] = False
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

    def difference_from(self, other: "KnownRouting", start: int, end: int) -> RowDifference | None:
        """The first row in [start, end) that both know and of which they name other experts."""
        end = min(end, len(self._known), len(other._known))
        if start >= end or self._experts.shape[1:] != other._experts.shape[1:]:
            return None
        known = self._known[start:end] & other._known[start:end]
        return self._differing(start, other._experts[start:end], known)

    def first_known(self, start: int, end: int) -> int | None:
        """The first known row from `start` on and before `end`."""
        known = np.flatnonzero(self._known[start:end])
        return start + int(known[0]) if len(known) else None

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
        return self._differing(start, now, self._known[start:stop])

    def _differing(self, start: int, now: Experts, known: NDArray[np.bool_]) -> RowDifference | None:
        """The first of these rows from `start` on that names other experts, of those that are `known`."""
        before = self._experts[start : start + len(now)]
        if np.array_equal(before, now):
            return None
        at = np.flatnonzero((before != now).any(axis=(1, 2)) & known)
        one, other = np.sort(before[at], axis=2), np.sort(now[at], axis=2)
        differs = np.argwhere((one != other).any(axis=2))
        if not len(differs):
            return None
        row, layer = differs[0].tolist()
        return RowDifference(
            row=start + int(at[row]),
            layer=layer if self.has_shape else None,
            before=one[row, layer].tolist(),
            now=other[row, layer].tolist(),
        )

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
