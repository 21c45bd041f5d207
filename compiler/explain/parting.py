"""Where two paths of ids part, and how they go on: the ids alone, without their texts.

Each search is bounded or one pass over the arrays, so that a split costs no more than its prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from turnstile.compiler.open_sequence import Tokens
from turnstile.compiler.token_tree import equal_front

WINDOW = 64
"""How many ids of each side are searched for the place where the paths meet again."""

_ALIKE = 3  # ids in a row that must be equal for two paths to count as together again
_TRIES = 16

Only = Literal["left_out", "put_in", ""]


@dataclass(frozen=True, slots=True)
class Parting:
    """Ids [start, earlier_end) of an earlier path stand against [start, later_end) of a later one."""

    start: int  # length of the common beginning
    earlier_end: int
    later_end: int
    only: Only = ""
    """Whether ids were only left out, or only put in: all of the earlier path's ids behind them follow."""


def parting(earlier_T: Tokens, later_T: Tokens) -> Parting:
    """How a later path leaves an earlier one; at most `WINDOW` ids of each where they do not meet again."""
    start = equal_front(earlier_T, later_T)
    earlier, later = earlier_T[start:], later_T[start:]
    if (skipped := _skipped(earlier, later, whole=earlier)) is not None:
        return Parting(start, start + skipped, start, "left_out")
    if len(earlier) and (skipped := _skipped(later, earlier, whole=earlier)) is not None:
        return Parting(start, start, start + skipped, "put_in")
    one, other = _meeting(earlier[: WINDOW + _ALIKE].tolist(), later[: WINDOW + _ALIKE].tolist())
    return Parting(start, start + one, start + other)


def _skipped(skipping: Tokens, other: Tokens, whole: Tokens) -> int | None:
    """How many ids of one path must be skipped for the rest of `whole`, one of both, to be equal."""
    if not len(other) or not len(skipping):
        return None
    for at in np.flatnonzero(skipping == other[0])[:_TRIES].tolist():
        size = len(skipping) - at if whole is skipping else len(other)
        if np.array_equal(skipping[at : at + size], other[:size]):
            return int(at)
    return None


def _meeting(earlier: Sequence[int], later: Sequence[int]) -> tuple[int, int]:
    """The fewest ids of each side after which some in a row are equal; all but those where there are none."""
    first = {row: at for at, row in reversed(list(enumerate(_rows(later))))}
    places = ((one, first[row]) for one, row in enumerate(_rows(earlier)) if row in first)
    return min(places, key=sum, default=(min(len(earlier), WINDOW), min(len(later), WINDOW)))


def _rows(ids: Sequence[int]) -> list[tuple[int, ...]]:
    """As many ids as must be equal, from each place on."""
    return [tuple(ids[at : at + _ALIKE]) for at in range(len(ids) - _ALIKE + 1)]
