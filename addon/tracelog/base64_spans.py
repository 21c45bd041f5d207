"""Finds the long base64 spans of a body: images and routing, worth storing as the bytes they spell."""

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


def base64_spans(body: bytes, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
    """(start, end, decoded bytes) of each long span of body[start:stop] that re-encodes to itself, in order.

    Looks at a few bytes in every kilobyte: text costs next to nothing.
    """
    done = at = start  # nothing before `done` may be looked at again
    while (at := _probed(body, at, stop)) < stop:
        first = _first_char(body, at, done)
        end = body.find(b'"', at, stop)
        raw = _decoded(body, first, end)
        if raw is None:  # it is not all of a string
            match = _FORWARD.match(body, at, stop)
            end = match.end() if match else at
            raw = _decoded(body, first, end)
        if raw is not None:
            yield first, end, raw
        done = end
        at = max(end, at + _PROBE_STEP)


def base64_strings(body: bytes) -> Iterator[tuple[int, int]]:
    """[start, end) of each long string, without its quotes, that begins with base64, in order.

    What follows its first kilobytes is not looked at.
    """
    done = at = 0
    while (at := _probed(body, at, len(body))) < len(body) and (end := body.find(b'"', at)) >= 0:
        start = body.rfind(b'"', done, at) + 1
        if start and end - start >= MIN_CHARS and _is_base64(body[start:at]):
            yield start, end
        done = at = end + 1


def _probed(body: bytes, at: int, stop: int) -> int:
    """The first place from `at` on, by steps, where there is base64; `stop` where there is none."""
    while at + _PROBE_CHARS <= stop:
        if _is_base64(body[at : at + _PROBE_CHARS]):
            return at
        at += _PROBE_STEP
    return stop


def _is_base64(text: bytes) -> bool:
    return not text.translate(None, _ALPHABET)


def _first_char(body: bytes, at: int, floor: int) -> int:
    """Where the run of base64 characters that holds `at` begins, not before `floor`."""
    low = max(floor, at - _LOOK_BACK)
    last = low
    for match in _NOT_BASE64.finditer(body, low, at):
        last = match.end()
    return last


def _decoded(body: bytes, start: int, end: int) -> bytes | None:
    """The bytes that body[start:end] spells; None where it is short, or they would be spelled otherwise."""
    if end - start < MIN_CHARS:
        return None
    try:
        raw = binascii.a2b_base64(memoryview(body)[start:end], strict_mode=True)
    except binascii.Error:
        return None
    # of strict base64 only the last four characters can be spelled otherwise
    last = raw[(len(raw) - 1) // 3 * 3 :]
    return raw if body.startswith(binascii.b2a_base64(last, newline=False), end - 4) else None
