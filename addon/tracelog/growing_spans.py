"""Finds the spans of a reply that grow with every turn and begin as they did in the turn before.

A reply repeats the ids of its whole prompt, an array of integers, and where routed experts are asked for
also theirs: base64, two kilobytes a token for a model of 48 layers with 8 experts each. What such a span
repeats is copied from the base exchange, and is not decoded. It is compared with the reply that it may
repeat as long as that is still in memory, which takes an eighth of the time of a fingerprint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from turnstile.addon.tracelog.base64_spans import base64_strings
from turnstile.addon.tracelog.fingerprints import Fingerprint, equal_front, fingerprint, memory_of_fingerprint

Kind = Literal["array", "base64"]

_UNIT: Mapping[Kind, int] = {
    "array": 1,
    "base64": 16,  # characters that spell three whole int32: what is left of a span decodes by itself
}
_ARRAY = re.compile(rb"\[(?=[0-9, ]{64})")
_LONG_ARRAY = 512  # bytes; below, a copy saves nothing
_LARGE = 256 * 1024  # bytes; below, holding the reply saves nothing
_COMPARED_AT_ONCE = 64 * 1024  # bytes

_Span = tuple[int, int]  # [start, end)


class GrowingSpan:
    """One of them. Holds on to its reply until it is told to remember no more than a fingerprint."""

    __slots__ = ("_fingerprint", "_reply", "kind", "size", "start")

    def __init__(self, kind: Kind, reply: bytes, start: int, end: int) -> None:
        self.kind, self.start, self.size = kind, start, end - start
        self._reply: bytes | None = reply
        self._fingerprint: Fingerprint | None = None

    @property
    def memory(self) -> int:
        """Bytes that it holds without its reply."""
        return 100 + memory_of_fingerprint(self.size)

    @property
    def held(self) -> int:
        """Bytes of the reply that it holds on to."""
        return 0 if self._reply is None else len(self._reply)

    def let_go(self) -> None:
        """Holds on to its reply no longer."""
        self._fingerprint, self._reply = self._own_fingerprint(), None

    def repeated_by(self, later: "GrowingSpan") -> int:
        """How many bytes at the front of `later`, which holds its reply, this one has too."""
        if self._reply is None or later._reply is None:
            shared = self._own_fingerprint().shared_prefix(later._own_fingerprint(), later._text())
            return shared - shared % _UNIT[self.kind]
        shared = _equal_front(self._text(), later._reply, later.start, later.start + later.size)
        later._fingerprint = fingerprint(later._text(), self._own_fingerprint(), shared)
        return shared - shared % _UNIT[self.kind]

    def _text(self) -> memoryview:
        assert self._reply is not None, "the span does not hold its reply any more"
        return memoryview(self._reply)[self.start : self.start + self.size]

    def _own_fingerprint(self) -> Fingerprint:
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._text())
        return self._fingerprint


def growing_spans(reply: bytes) -> list[GrowingSpan]:
    """Those of `reply` in their order in it: all long base64 strings, and the longest plain integer array."""
    strings = [*base64_strings(reply)]
    gaps = zip([0, *(end for _, end in strings)], [*(start for start, _ in strings), len(reply)], strict=True)
    spans: list[tuple[_Span, Kind]] = [(span, "base64") for span in strings]
    if (array := _longest_array(reply, gaps)) is not None:
        spans.append((array, "array"))
    return [GrowingSpan(kind, reply, start, end) for (start, end), kind in sorted(spans)]


def remembered(spans: Sequence[GrowingSpan]) -> dict[Kind, GrowingSpan]:
    """The first of each kind: a conversation goes on with one of several choices, mostly the first.

    Only where they are long they still hold on to their reply.
    """
    first = {span.kind: span for span in reversed(spans)}
    for span in first.values():
        if span.size < _LARGE:
            span.let_go()
    return first


def _equal_front(one: memoryview, other: bytes, start: int, end: int) -> int:
    """The length of the longest common prefix of `one` and other[start:end]."""
    size, at = min(len(one), end - start), 0
    while at < size:
        part = one[at : min(size, at + _COMPARED_AT_ONCE)]
        if not other.startswith(part, start + at):  # copies nothing
            return at + equal_front(bytes(part), other[start + at : start + at + len(part)])
        at += len(part)
    return size


def _longest_array(reply: bytes, parts: Iterable[_Span]) -> _Span | None:
    """What stands between the brackets of the longest plain integer array in `parts`; None: none is long."""
    longest, size = None, _LONG_ARRAY
    for at, stop in parts:
        for match in _ARRAY.finditer(reply, at, stop):
            start = match.end()
            end = reply.find(b"]", start, stop)
            if end - start > size and _is_plain(reply[start:end]):
                longest, size = (start, end), end - start
    return longest


def _is_plain(array: bytes) -> bool:
    return not array.translate(None, b"0123456789, ")
