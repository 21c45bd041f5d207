import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.base64_spans import MIN_CHARS, base64_spans, base64_strings

RAW = random.Random(1).randbytes(MIN_CHARS)
SPAN = base64.b64encode(RAW)


def spans(body: bytes) -> list[tuple[int, int, bytes]]:
    return list(base64_spans(body, 0, len(body)))


def test_span_in_a_data_url_is_found_with_its_bytes() -> None:
    body = b'{"url":"data:image/png;base64,' + SPAN + b'"}'
    start = body.index(SPAN)
    assert spans(body) == [(start, start + len(SPAN), RAW)]


def test_text_with_spaces_has_no_span() -> None:
    assert spans(b'{"content":"' + b"some words " * 1000 + b'"}') == []


def test_short_span_is_left_alone() -> None:
    assert spans(b'"' + SPAN[: MIN_CHARS - 4] + b'"') == []


def test_span_that_would_re_encode_differently_is_left_alone() -> None:
    unpadded = SPAN.rstrip(b"=")
    wrapped = b"\\n".join(SPAN[at : at + 76] for at in range(0, len(SPAN), 76))
    assert spans(b'"' + unpadded + b'"') == []
    assert spans(b'"' + wrapped + b'"') == []


def test_search_begins_at_start() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    second = body.rindex(SPAN)
    assert [first for first, _, _ in base64_spans(body, second - 1, len(body))] == [second]


def test_search_ends_at_stop() -> None:
    body = b'"' + SPAN + b'","' + SPAN + b'"'
    assert list(base64_spans(body, 0, body.rindex(SPAN) + MIN_CHARS - 1)) == [(1, 1 + len(SPAN), RAW)]


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
