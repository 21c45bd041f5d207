"""Finds the long base64 spans of a body: images and routing, worth storing as the bytes they spell."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from turnstile.addon.tracelog.base64_spelling import Spelling, read_spelling

MIN_CHARS = 2048
"""Shorter spans stay in the body: cutting them out would save nothing."""

_PROBE_STEP = MIN_CHARS // 2  # every span of MIN_CHARS covers a probe and the step after it
_PROBE_CHARS = 48
_ANY_ALPHABET = rb"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_\="
_FORWARD = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_ANY_FORWARD = re.compile(rb"(?:[A-Za-z0-9+/_-]++|\\[/nr])*+={0,2}")  # of all spellings
_NOT_ANY = re.compile(rb"[^A-Za-z0-9+/_\\-]")
_LOOK_BACK = 4096

USUAL = Spelling()


class Span(NamedTuple):
    """A part of a body and the bytes that it spells."""

    start: int
    end: int
    raw: bytes
    spelling: Spelling


def base64_spans(body: bytes, start: int = 0) -> Iterator[Span]:
    """Each long span after `start` that its spelling gives back, in order.

    Looks at a few bytes in every kilobyte: text costs next to nothing.
    """
    done = start  # nothing before it may be looked at again
    at = start
    while at + _PROBE_CHARS <= len(body):
        if body[at : at + _PROBE_CHARS].translate(None, _ANY_ALPHABET):
            at += _PROBE_STEP
            continue
        end = _end(_FORWARD, body, at)
        span = _usual(body, at, done, end) if end - at >= _PROBE_CHARS else None
        if span is None:
            end = max(end, _end(_ANY_FORWARD, body, at))
            span = _unusual(body, at, done, end)
        if span is not None:
            yield span
        done = span.end if span is not None else end
        at = max(done, at + _PROBE_STEP)


def _usual(body: bytes, at: int, floor: int, end: int) -> Span | None:
    """The span of standard base64 around `at`, up to `end`."""
    first = _first_char(_NOT_BASE64, body, at, floor)
    raw = _decoded(body[first:end]) if end - first >= MIN_CHARS else None
    return None if raw is None else Span(first, end, raw, USUAL)


def _unusual(body: bytes, at: int, floor: int, end: int) -> Span | None:
    """The span of any other spelling around `at`, up to `end`."""
    first = _first_char(_NOT_ANY, body, at, floor)
    if end - first < MIN_CHARS:
        return None
    read = read_spelling(body[first:end])
    return None if read is None else Span(first, end, *read)


def _end(characters: re.Pattern[bytes], body: bytes, at: int) -> int:
    match = characters.match(body, at)
    return match.end() if match else at


def _first_char(others: re.Pattern[bytes], body: bytes, at: int, floor: int) -> int:
    """Where the run of characters that holds `at` begins, not before `floor`; `others` are none of its."""
    low = max(floor, at - _LOOK_BACK)
    last = low
    for match in others.finditer(body, low, at):
        last = match.end()
    return last


def _decoded(span: bytes) -> bytes | None:
    try:
        raw = base64.b64decode(span, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Only the last characters can be spelled otherwise: by bits that no byte has.
    return raw if len(span) % 4 == 0 and base64.b64encode(raw[-(len(raw) % 3 or 3) :]) == span[-4:] else None
