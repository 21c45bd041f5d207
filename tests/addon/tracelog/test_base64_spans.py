import base64
import random

from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.base64_spans import MIN_CHARS, USUAL, base64_spans
from turnstile.addon.tracelog.base64_spelling import Spelling

RAW = random.Random(1).randbytes(MIN_CHARS)
SPAN = base64.b64encode(RAW)


def test_span_in_a_data_url_is_found_with_its_bytes() -> None:
    body = b'{"url":"data:image/png;base64,' + SPAN + b'"}'
    start = body.index(SPAN)
    assert list(base64_spans(body)) == [(start, start + len(SPAN), RAW, USUAL)]


def test_text_with_spaces_has_no_span() -> None:
    assert list(base64_spans(b'{"content":"' + b"some words " * 1000 + b'"}')) == []


def test_short_span_is_left_alone() -> None:
    assert list(base64_spans(b'"' + SPAN[: MIN_CHARS - 4] + b'"')) == []


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
        first, second = base64_spans(body)
        assert (first.raw, first.spelling, body[first.start : first.end]) == (RAW, spelling, text)
        assert (second.raw, second.start) == (RAW, body.rindex(text))


def test_span_that_no_spelling_gives_back_is_left_alone() -> None:
    mixed = SPAN[:1000].replace(b"/", rb"\/") + SPAN[1000:]
    uneven = rb"\n".join((SPAN[:76], SPAN[76:100], SPAN[100:]))
    for text in (mixed, uneven, SPAN.rstrip(b"=")[:-1] + b"B"):
        assert list(base64_spans(b'"' + text + b'"')) == []


def test_search_begins_at_start() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    second = body.rindex(SPAN)
    assert [span.start for span in base64_spans(body, second - 1)] == [second]


@given(st.integers(0, 3000), st.integers(MIN_CHARS, 3 * MIN_CHARS), st.integers(0, 50))
def test_every_long_span_is_found_wherever_it_lies(before: int, size: int, after: int) -> None:
    raw = random.Random(size).randbytes(size)
    span = base64.b64encode(raw)
    body = b". " * (before // 2) + b'"' + span + b'"' + b" ." * after
    start = body.index(b'"') + 1
    assert list(base64_spans(body)) == [(start, start + len(span), raw, USUAL)]
