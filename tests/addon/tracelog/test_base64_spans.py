import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.base64_spans import MIN_CHARS, USUAL, base64_spans, base64_strings
from turnstile.addon.tracelog.base64_spelling import Spelling

RAW = random.Random(1).randbytes(MIN_CHARS)
SPAN = base64.b64encode(RAW)


def spans(body: bytes) -> list[tuple[int, int, bytes]]:
    """(start, end, bytes) of each in the usual spelling."""
    found = list(base64_spans(body, 0, len(body)))
    assert {span.spelling for span in found} <= {USUAL}
    return [span[:3] for span in found]


def test_span_in_a_data_url_is_found_with_its_bytes() -> None:
    body = b'{"url":"data:image/png;base64,' + SPAN + b'"}'
    start = body.index(SPAN)
    assert spans(body) == [(start, start + len(SPAN), RAW)]


def test_text_with_spaces_has_no_span() -> None:
    assert spans(b'{"content":"' + b"some words " * 1000 + b'"}') == []


def test_short_span_is_left_alone() -> None:
    assert spans(b'"' + SPAN[: MIN_CHARS - 4] + b'"') == []


def test_other_spellings_are_found_and_tell_how() -> None:
    for spelling in (
        Spelling(padded=False),
        Spelling(for_urls=True),
        Spelling(escaped=True),
        Spelling(line=76, line_break=rb"\n"),
        Spelling(padded=False, escaped=True, line=64, line_break=rb"\r\n"),
    ):
        text = spelling.spell(RAW)
        body = b'{"url":"data:image\\/png;base64,' + text + b'","x":"' + text + b'"}'
        first, second = base64_spans(body, 0, len(body))
        assert (first.raw, first.spelling, body[first.start : first.end]) == (RAW, spelling, text)
        assert (second.raw, second.start) == (RAW, body.rindex(text))


def test_span_that_no_spelling_gives_back_is_left_alone() -> None:
    mixed = SPAN[:1000].replace(b"/", rb"\/") + SPAN[1000:]
    uneven = rb"\n".join((SPAN[:76], SPAN[76:100], SPAN[100:]))
    for text in (mixed, uneven, SPAN.rstrip(b"=")[:-1] + b"B"):
        assert spans(b'"' + text + b'"') == []


def test_search_begins_at_start() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    second = body.rindex(SPAN)
    assert [span.start for span in base64_spans(body, second - 1, len(body))] == [second]


def test_search_ends_at_stop() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    assert list(base64_spans(body, 0, body.rindex(SPAN) + MIN_CHARS - 1)) == [(1, 1 + len(SPAN), RAW, USUAL)]


@pytest.mark.parametrize("size", [MIN_CHARS, MIN_CHARS + 1, MIN_CHARS + 2])
def test_span_is_taken_only_where_its_last_characters_come_out_the_same(size: int) -> None:
    span = base64.b64encode(RAW.ljust(size, b"\xff")[:size])
    assert [raw for _, _, raw in spans(b'"' + span + b'"')] == [base64.b64decode(span)]
    for last in b"ABCDwxyz+/":
        other = bytearray(span)
        other[len(span.rstrip(b"=")) - 1] = last
        canonical = base64.b64encode(base64.b64decode(other)) == other
        assert bool(spans(b'"' + bytes(other) + b'"')) == canonical


def test_strings_that_begin_with_base64_are_found_up_to_their_quotes() -> None:
    text = SPAN + b" and more, [1,2]"
    body = b'{"a":"' + text + b'","b":"data:image/png;base64,' + SPAN + b'","c":["' + SPAN + b'"],"d":""}'
    found = [body[start:end] for start, end in base64_strings(body)]
    assert found == [text, SPAN]


@pytest.mark.parametrize("body", [SPAN, b'"' + SPAN, SPAN + b'"', b'"' + SPAN[: MIN_CHARS - 4] + b'"', b""])
def test_what_is_no_long_string_is_no_string(body: bytes) -> None:
    assert list(base64_strings(body)) == []


@given(st.integers(0, 3000), st.integers(MIN_CHARS, 3 * MIN_CHARS), st.integers(0, 3000))
def test_every_long_string_is_found_wherever_it_lies(before: int, size: int, after: int) -> None:
    strings = [base64.b64encode(random.Random(seed).randbytes(size)) for seed in (1, 2)]
    body = b". " * (before // 2) + b'"' + strings[0] + b'"' + b"1," * (after // 2) + b'"' + strings[1] + b'"'
    assert [body[start:end] for start, end in base64_strings(body)] == strings


@given(st.integers(0, 3000), st.integers(MIN_CHARS, 3 * MIN_CHARS), st.integers(0, 50))
def test_every_long_span_is_found_wherever_it_lies(before: int, size: int, after: int) -> None:
    raw = random.Random(size).randbytes(size)
    span = base64.b64encode(raw)
    body = b". " * (before // 2) + b'"' + span + b'"' + b" ." * after
    start = body.index(b'"') + 1
    assert spans(body) == [(start, start + len(span), raw)]
