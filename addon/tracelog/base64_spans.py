"""Finds the long base64 spans of a body: images and routing, worth storing as the bytes they spell."""

import base64
import binascii
import re
from collections.abc import Iterator

MIN_CHARS = 2048
"""Shorter spans stay in the body: cutting them out would save nothing."""

_PROBE_STEP = MIN_CHARS // 2  # every span of MIN_CHARS covers a probe and the step after it
_PROBE_CHARS = 48
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FORWARD = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_LOOK_BACK = 4096


def base64_spans(body: bytes, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """(start, end, decoded bytes) of each long span after `start` that re-encodes to itself, in order.

    Looks at a few bytes in every kilobyte: text costs next to nothing.
    """
    done = start  # nothing before it may be looked at again
    at = start
    while at + _PROBE_CHARS <= len(body):
        if body[at : at + _PROBE_CHARS].translate(None, _ALPHABET):
            at += _PROBE_STEP
            continue
        first = _first_char(body, at, done)
        match = _FORWARD.match(body, at)
        end = match.end() if match else at
        if end - first >= MIN_CHARS and (raw := _decoded(body[first:end])) is not None:
            yield first, end, raw
        done = end
        at = max(end, at + _PROBE_STEP)


def _first_char(body: bytes, at: int, floor: int) -> int:
    """Where the run of base64 characters that holds `at` begins, not before `floor`."""
    low = max(floor, at - _LOOK_BACK)
    last = low
    for match in _NOT_BASE64.finditer(body, low, at):
        last = match.end()
    return last


def _decoded(span: bytes) -> bytes | None:
    try:
        raw = base64.b64decode(span, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Only the last characters can be spelled otherwise: by bits that no byte has.
    return raw if len(span) % 4 == 0 and base64.b64encode(raw[-(len(raw) % 3 or 3) :]) == span[-4:] else None
