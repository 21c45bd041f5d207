"""Finds the spans of a reply that grow with every turn and begin as they did in the turn before.

A reply repeats the ids of its whole prompt, an array of integers, and where routed experts are asked for
also theirs: base64, two kilobytes a token for a model of 48 layers with 8 experts each. What such a span
repeats is copied from the base exchange. It is neither decoded nor looked at beyond its fingerprint.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from turnstile.addon.tracelog.base64_spans import base64_strings
from turnstile.addon.tracelog.fingerprints import Fingerprint, fingerprint

Kind = Literal["array", "base64"]

_UNIT: Mapping[Kind, int] = {
    "array": 1,
    "base64": 16,  # characters that spell three whole int32: what is left of a span decodes by itself
}
_ARRAY = re.compile(rb"\[(?=[0-9, ]{64})")
_LONG_ARRAY = 512  # bytes; below, a copy saves nothing

_Span = tuple[int, int]  # [start, end)


@dataclass(frozen=True, slots=True)
class GrowingSpan:
    """One of them, as it is remembered for the replies to come."""

    kind: Kind
    start: int  # in its reply
    fingerprint: Fingerprint

    def repeated_by(self, later: "GrowingSpan", reply: bytes) -> int:
        """How many bytes at the front of `later`, a span of `reply`, this one has too."""
        text = memoryview(reply)[later.start : later.start + later.fingerprint.size]
        shared = self.fingerprint.shared_prefix(later.fingerprint, text)
        return shared - shared % _UNIT[self.kind]


def growing_spans(reply: bytes) -> list[GrowingSpan]:
    """Those of `reply` in their order in it: all long base64 strings, and the longest plain integer array."""
    strings = [*base64_strings(reply)]
    gaps = zip([0, *(end for _, end in strings)], [*(start for start, _ in strings), len(reply)], strict=True)
    spans: list[tuple[_Span, Kind]] = [(span, "base64") for span in strings]
    if (array := _longest_array(reply, gaps)) is not None:
        spans.append((array, "array"))
    view = memoryview(reply)
    return [GrowingSpan(kind, start, fingerprint(view[start:end])) for (start, end), kind in sorted(spans)]


def first_of_each_kind(spans: Sequence[GrowingSpan]) -> dict[Kind, GrowingSpan]:
    """What is remembered of several choices: a conversation goes on with one of them, mostly the first."""
    return {span.kind: span for span in reversed(spans)}


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
