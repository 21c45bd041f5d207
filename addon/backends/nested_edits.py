"""Byte-exact edits inside the values of a JSON object: of an object, of the objects in an array."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from turnstile.addon.backends.json_edit import JsonObject, array_items, edit_object, edits, parse_object
from turnstile.addon.tracelog.records import Splice

Edit = Callable[[JsonObject], tuple[Splice, ...]]
"""The edits of one JSON object, with its own offsets."""


def edits_inside(
    source: JsonObject, key: str, *, set: Mapping[str, Any], remove: Collection[str]
) -> tuple[Splice, ...]:
    """As `edit_object`, of the object that `source` has under `key`; () where it has none there."""
    found = _span(source, key, b"{")
    if found is None:
        return ()
    start, end = found
    return _shifted(edit_object(source.body[start:end], set=set, remove=remove), start)


def edits_of_items(source: JsonObject, key: str, edit: Edit) -> tuple[Splice, ...]:
    """What `edit` makes of each object in the array that `source` has under `key`; () for no array."""
    found = _span(source, key, b"[")
    if found is None:
        return ()
    splices: tuple[Splice, ...] = ()
    for start, end in array_items(source.body, *found):
        if source.body.startswith(b"{", start):
            splices += _shifted(edit(parse_object(source.body[start:end])), start)
    return splices


def joined_edits(
    source: JsonObject,
    *inner: tuple[Splice, ...],
    set: Mapping[str, Any],
    remove: Collection[str] = (),
) -> tuple[Splice, ...]:
    """Edits of the object's members, and those inside values that these leave alone, in rising order."""
    changes = [*edits(source, set=set, remove=remove), *(splice for splices in inner for splice in splices)]
    return tuple(sorted(changes, key=lambda splice: splice.start))


def _span(source: JsonObject, key: str, opening: bytes) -> tuple[int, int] | None:
    """Start and end of the value under `key` when it begins with that bracket."""
    member = source.member(key)
    if member is None or not source.body.startswith(opening, member.value_start):
        return None
    return member.value_start, member.value_end


def _shifted(splices: tuple[Splice, ...], by: int) -> tuple[Splice, ...]:
    return tuple(Splice(splice.start + by, splice.end + by, splice.insert) for splice in splices)
