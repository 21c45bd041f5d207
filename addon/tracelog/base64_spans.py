"""Finds the long base64 spans of a body: images and routing, worth storing as the bytes they spell."""

import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

import pybase64

from turnstile.addon.tracelog.base64_spelling import Spelling, read_spelling

MIN_CHARS = 2048
"""Shorter spans stay in the body: cutting them out would save nothing."""

_PROBE_STEP = MIN_CHARS // 2  # every span of MIN_CHARS covers a probe and the step after it
_PROBE_CHARS = 48
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ANY_ALPHABET = rb"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_\="
_FORWARD = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_ANY_FORWARD = re.compile(rb"(?:[A-Za-z0-9+/_-]++|\\[/nr])*+={0,2}")  # of all spellings
_WITHOUT_PADDING = _ANY_ALPHABET.removesuffix(b"=")
_LOOK_BACK = 4096

USUAL = Spelling()


class Span(NamedTuple):
    """A part of a body and the bytes that it spells."""

    start: int
    end: int
    raw: bytes
    spelling: Spelling


def base64_spans(body: bytes, start: int, stop: int) -> Iterator[Span]:
    """Each long span of body[start:stop] that its spelling gives back, in order.

    Looks at a few bytes in every kilobyte: text costs next to nothing.
    """
    done = at = start  # nothing before `done` may be looked at again
    while (at := _probed(body, at, stop, _ANY_ALPHABET)) < stop:
        end = body.find(b'"', at, stop)
        span = _usual(body, at, done, end)
        if span is None:  # it is not all of a string
            end = _end(_FORWARD, body, at, stop)
            span = _usual(body, at, done, end)
        if span is None:
            end = max(end, _end(_ANY_FORWARD, body, at, stop))
            span = _unusual(body, at, done, end)
        if span is not None:
            yield span
        done = end
        at = max(done, at + _PROBE_STEP)


def base64_strings(body: bytes) -> Iterator[tuple[int, int]]:
    """[start, end) of each long string, without its quotes, that begins with base64, in order.

    What follows its first kilobytes is not looked at.
    """
    done = at = 0
    while (at := _probed(body, at, len(body), _ALPHABET)) < len(body) and (end := body.find(b'"', at)) >= 0:
        start = body.rfind(b'"', done, at) + 1
        if start and end - start >= MIN_CHARS and not body[start:at].translate(None, _ALPHABET):
            yield start, end
        done = at = end + 1


def _probed(body: bytes, at: int, stop: int, alphabet: bytes) -> int:
    """The first place from `at` on, by steps, where there is base64; `stop` where there is none."""
    while at + _PROBE_CHARS <= stop:
        if not body[at : at + _PROBE_CHARS].translate(None, alphabet):
            return at
        at += _PROBE_STEP
    return stop


def _usual(body: bytes, at: int, floor: int, end: int) -> Span | None:
    """The span of standard base64 around `at`, up to `end`."""
    first = _first_char(_ALPHABET, body, at, floor)
    raw = _decoded(body, first, end)
    return None if raw is None else Span(first, end, raw, USUAL)


def _unusual(body: bytes, at: int, floor: int, end: int) -> Span | None:
    """The span of any other spelling around `at`, up to `end`."""
    first = _first_char(_WITHOUT_PADDING, body, at, floor)
    if end - first < MIN_CHARS:
        return None
    read = read_spelling(body[first:end])
    return None if read is None else Span(first, end, *read)


def _end(characters: re.Pattern[bytes], body: bytes, at: int, stop: int) -> int:
    match = characters.match(body, at, stop)
    return match.end() if match else at


def _first_char(alphabet: bytes, body: bytes, at: int, floor: int) -> int:
    """Where the run of characters of an alphabet that holds `at` begins, not before `floor`."""
    low = max(floor, at - _LOOK_BACK)
    return low + len(body[low:at].rstrip(alphabet))


def _decoded(body: bytes, start: int, end: int) -> bytes | None:
    """The bytes that body[start:end] spells; None where it is short, or they would be spelled otherwise."""
    if end - start < MIN_CHARS:
        return None
    try:
        raw = pybase64.b64decode(memoryview(body)[start:end], validate=True)
    except binascii.Error:
        return None
    # of strict base64 only the last four characters can be spelled otherwise
    last = raw[(len(raw) - 1) // 3 * 3 :]
    return raw if body.startswith(pybase64.b64encode(last), end - 4) else None
