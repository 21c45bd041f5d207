"""Byte-exact edits of one JSON object (RFC 8259): what is not touched stays as it was written.

Never re-serialises: escapes, lone surrogates, big integers, whitespace, and repeated keys of members that
an edit does not name are the same bytes afterwards. Of a repeated key the last one counts, as in Python,
orjson and the servers.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.tracelog.records import Splice

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# JSON's own characters are ASCII: read as Latin-1, a UTF-8 body has one character a byte, and every offset
# of the text is one of the body. Three times as fast as counting, on text that is not English.
BYTE_FOR_BYTE = "latin-1"
_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object, with its place (byte offsets of the body)."""

    key: str
    key_start: int  # of the opening quote
    value_start: int
    value_end: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The body of a JSON object, cut into its members."""

    body: bytes
    inside: int  # offset behind the opening brace
    members: tuple[Member, ...]

    def member(self, key: str) -> Member | None:
        """The member of that key, the last one of several."""
        return next((member for member in reversed(self.members) if member.key == key), None)

    def value(self, key: str) -> Any:
        """What the object has under `key`, None where it has nothing; of a repeated key the last value."""
        member = self.member(key)
        return None if member is None else self.value_of(member)

    def value_of(self, member: Member) -> Any:
        """The member's value; raises AskingError where its strings are no UTF-8."""
        return _loaded(self.body[member.value_start : member.value_end])


def edit_object(body: bytes, *, set: Mapping[str, Any], remove: Collection[str]) -> tuple[Splice, ...]:
    """The edits after which the object in `body` has the members of `set` and none of `remove`.

    Offsets are bytes of `body`, rising, without overlap. A key that already has the value yields no edit, so
    that an object which needs none gives (). Raises AskingError when `body` is no JSON object.
    """
    return edits(parse_object(body), set=set, remove=remove)


def parse_object(body: bytes) -> JsonObject:
    """The JSON object that is all of `body`; raises AskingError when it is none."""
    text = body.decode(BYTE_FOR_BYTE)
    start = len(BYTE_ORDER_MARK) if body.startswith(BYTE_ORDER_MARK) else 0
    inside = _expect("{", text, _space_end(text, start))
    try:
        found, end = _members(text, inside)
    except ValueError as error:
        raise AskingError(f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise AskingError("the body is JSON that is nested too deeply to read") from error
    if (end := _space_end(text, end)) < len(text):
        raise AskingError(f"the body goes on after its JSON object, at byte {end}")
    return JsonObject(body, inside, tuple(found))


def edits(source: JsonObject, *, set: Mapping[str, Any], remove: Collection[str]) -> tuple[Splice, ...]:
    """As `edit_object`, for an object that is parsed already."""
    last = {member.key: at for at, member in enumerate(source.members)}
    gone = [
        at
        for at, member in enumerate(source.members)
        if (last[member.key] != at if member.key in set else member.key in remove)
    ]
    changes = _removals(source.members, gone)
    for key, value in set.items():
        if key in last and not _has(source, member := source.members[last[key]], value):
            changes.append((member.value_start, member.value_end, _json(value)))
    if added := [_json(key) + b":" + _json(value) for key, value in set.items() if key not in last]:
        at = source.members[-1].value_end if source.members else source.inside
        comma = b"," if len(gone) < len(source.members) else b""
        changes.append((at, at, comma + b",".join(added)))
    return tuple(Splice(*change) for change in _joined(sorted(changes)))


def array_items(body: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Start and end of each item of the JSON array that is body[start:end]."""
    text = body[start:end].decode(BYTE_FOR_BYTE)
    items: list[tuple[int, int]] = []
    at = _space_end(text, _expect("[", text, 0))
    while not text.startswith("]", at):
        if items:
            at = _space_end(text, _expect(",", text, at))
        item_end = _decode(text, at)[1]
        items.append((start + at, start + item_end))
        at = _space_end(text, item_end)
    return items


_Change = tuple[int, int, bytes]  # start, end, what comes in their place


def _members(text: str, at: int) -> tuple[list[Member], int]:
    """The members from behind the opening brace on, and the offset behind the closing one."""
    found: list[Member] = []
    at = _space_end(text, at)
    while not text.startswith("}", at):
        if found:
            at = _space_end(text, _expect(",", text, at))
        found.append(_member(text, at))
        at = _space_end(text, found[-1].value_end)
    return found, at + 1


def _member(text: str, at: int) -> Member:
    if not text.startswith('"', at):
        raise AskingError(f"the body is no JSON: expected a key in double quotes at byte {at}")
    key, end = _decode(text, at)
    if not key.isascii():
        key = _loaded(text[at:end].encode(BYTE_FOR_BYTE))
    start = _space_end(text, _expect(":", text, _space_end(text, end)))
    return Member(key, at, start, _decode(text, start)[1])


def _removals(members: tuple[Member, ...], gone: list[int]) -> list[_Change]:
    """Cuts the members with one comma each: the one before it, or, at the head of the object, after it."""
    first_kept = next((at for at in range(len(members)) if at not in gone), len(members))
    changes = []
    for at in gone:
        member = members[at]
        if at > first_kept:
            changes.append((members[at - 1].value_end, member.value_end, b""))
        else:
            end = members[at + 1].key_start if at + 1 < len(members) else member.value_end
            changes.append((member.key_start, end, b""))
    return changes


def _joined(changes: list[_Change]) -> list[_Change]:
    """Changes that touch become one."""
    joined: list[_Change] = []
    for start, end, insert in changes:
        if joined and joined[-1][1] == start:
            first, _, before = joined.pop()
            joined.append((first, end, before + insert))
        else:
            joined.append((start, end, insert))
    return joined


def _has(source: JsonObject, member: Member, value: Any) -> bool:
    """Whether the member already has that very value; arrays and objects count as another."""
    if isinstance(value, list | tuple | dict):
        return False
    present = source.value_of(member)
    return type(present) is type(value) and repr(present) == repr(value)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _loaded(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise AskingError(f"the body is not UTF-8: {error.reason}") from error


def _space_end(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None, "the pattern matches the empty string"
    return match.end()


def _expect(mark: str, text: str, at: int) -> int:
    """The offset behind `mark`, which must stand at `at`."""
    if not text.startswith(mark, at):
        found = repr(text[at]) if at < len(text) else "the end"
        raise AskingError(f"the body is no JSON object: expected {mark!r} at byte {at}, found {found}")
    return at + len(mark)
