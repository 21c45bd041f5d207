import base64
import random

from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.base64_spans import MIN_CHARS, base64_spans

RAW = random.Random(1).randbytes(MIN_CHARS)
SPAN = base64.b64encode(RAW)


def test_span_in_a_data_url_is_found_with_its_bytes() -> None:
    body = b'{"url":"data:image/png;base64,' + SPAN + b'"}'
    start = body.index(SPAN)
    assert list(base64_spans(body)) == [(start, start + len(SPAN), RAW)]


def test_text_with_spaces_has_no_span() -> None:
    assert list(base64_spans(b'{"content":"' + b"some words " * 1000 + b'"}')) == []


def test_short_span_is_left_alone() -> None:
    assert list(base64_spans(b'"' + SPAN[: MIN_CHARS - 4] + b'"')) == []


def test_span_that_would_re_encode_differently_is_left_alone() -> None:
    unpadded = SPAN.rstrip(b"=")
    wrapped = b"\\n".join(SPAN[at : at + 76] for at in range(0, len(SPAN), 76))
    assert list(base64_spans(b'"' + unpadded + b'"')) == []
    assert list(base64_spans(b'"' + wrapped + b'"')) == []


def test_search_begins_at_start() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    second = body.rindex(SPAN)
    assert [first for first, _, _ in base64_spans(body, second - 1)] == [second]


@given(st.integers(0, 3000), st.integers(MIN_CHARS, 3 * MIN_CHARS), st.integers(0, 50))
def test_every_long_span_is_found_wherever_it_lies(before: int, size: int, after: int) -> None:
    raw = random.Random(size).randbytes(size)
    span = base64.b64encode(raw)
    body = b". " * (before // 2) + b'"' + span + b'"' + b" ." * after
    start = body.index(b'"') + 1
    assert list(base64_spans(body)) == [(start, start + len(span), raw)]
