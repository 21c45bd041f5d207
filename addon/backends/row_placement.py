"""Which tokens the rows of an answer belong to; their number tells.

An answer has a row for every token but the last that it sampled, which was never fed to the model: P + O - 1
rows for a prompt of P and O sampled ids, less the first ones where the request wanted them left out. Some
servers pass over that wish, some add the last token's row, which is cut off. Any other number contradicts the
ids, and a number that can be read in two ways tells nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

DTYPES = {"uint8": "<u1", "int8": "<i1", "uint16": "<u2", "int16": "<i2", "int32": "<i4", "int64": "<i8"}
"""The types of ids in rows by their names, as NumPy writes them: the last character is the size in bytes."""


class Placement(NamedTuple):
    """Rows from token `first` on."""

    first: int
    rows: int  # that belong to a token, a tail is cut off
    row_size: int  # ids of a row


class UndecodableRouting(ValueError):
    """What was told is no routing of these ids; the message says why."""


class AmbiguousRouting(Exception):
    """The ids can be rows of two sizes, or begin at two tokens; the message says so."""


def placed(
    size: int, row_size: int | None, layers: int | None, start: int, counts: tuple[int, int]
) -> Placement:
    """Where `size` ids belong for (prompt, sampled) ids, when the rows from `start` on were wanted.

    `row_size` None: only their number tells; it is a multiple of `layers` where these are known. Raises
    UndecodableRouting, AmbiguousRouting.
    """
    whole = sum(counts) - 1
    start = min(start, whole)
    if row_size is None and not size and whole == start:
        raise AmbiguousRouting("no ids came, and no row was due")
    if row_size is None:
        possible = set(_by_size(size, layers or 1, start, whole))
    else:
        possible = set(_by_rows(size, row_size, start, whole))
    if not possible:
        raise UndecodableRouting(_misfit(size, row_size, layers, start, counts))
    if len(possible) > 1:
        readings = " or ".join(
            f"{each.rows} rows of {each.row_size} from {each.first} on" for each in sorted(possible)
        )
        raise AmbiguousRouting(f"{size} ids can be {readings}")
    return possible.pop()


def _by_rows(size: int, row_size: int, start: int, whole: int) -> Iterator[Placement]:
    for first, due in _numbers(start, whole):
        if size == due * row_size:
            yield Placement(first, min(due, whole - first), row_size)


def _by_size(size: int, layers: int, start: int, whole: int) -> Iterator[Placement]:
    for first, due in _numbers(start, whole):
        if due and size and not size % (due * layers):
            yield Placement(first, min(due, whole - first), size // due)


def _numbers(start: int, whole: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows): as wanted or from the beginning, without a tail and with one."""
    for first in (start, 0):
        yield first, whole - first
        yield first, whole - first + 1


def _misfit(size: int, row_size: int | None, layers: int | None, start: int, counts: tuple[int, int]) -> str:
    due = f"{sum(counts) - 1 - start} for {counts[0]} prompt and {counts[1]} sampled ids"
    expected = f"expected {due}" + (f" from row {start} on" if start else "")
    if row_size is None:
        of_layers = f" of {layers} layers" if layers else ""
        return f"{size} ids are no whole number for each row{of_layers}, {expected}"
    return f"{size} ids are {size / row_size:g} rows of {row_size}, {expected}"
