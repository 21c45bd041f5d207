import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.backends.sse import EventSplitter, RawEvent, parsed_event, with_data

BOM = b"\xef\xbb\xbf"

Dispatched = list[tuple[bytes, bytes]]


def split(*pieces: bytes) -> tuple[list[RawEvent], bytes]:
    """The events, and what is left."""
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events, splitter.end()


def dispatched(events: list[RawEvent]) -> Dispatched:
    return [(event.event, event.data) for event in events if event.data is not None]


def by_the_standard(body: bytes) -> Dispatched:
    """Type and data of the events, by the standard's own steps for one line after the other."""
    found: Dispatched = []
    kind, data = b"", b""
    for line in re.split(rb"\r\n|\n|\r", body.removeprefix(BOM))[:-1]:
        if not line:
            if data:
                found.append((kind or b"message", data[:-1]))
            kind, data = b"", b""
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"event":
                kind = value
            elif name == b"data":
                data += value + b"\n"
    return found


LINES = (b"data", b"data:", b"data: {}", b"event: x", b":", b" ", b"id: 1", b"retry: 3", b"x", b"\xc3", BOM)
LINE_ENDS = (b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\xe2\x80\xa8")
BODIES = st.lists(st.sampled_from((*LINES, *LINE_ENDS)), max_size=24).map(b"".join)


@given(BODIES, st.lists(st.integers(0, 60)))
def test_any_stream_cut_anywhere_is_what_the_standard_says_and_loses_no_byte(
    body: bytes, cuts: list[int]
) -> None:
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    events, rest = split(*(body[start:end] for start, end in pairwise(edges)))
    assert b"".join(event.raw for event in events) + rest == body
    assert dispatched(events) == by_the_standard(body)


@given(BODIES)
def test_an_event_is_there_as_soon_as_its_blank_line_is(body: bytes) -> None:
    splitter, seen = EventSplitter(), 0
    for end in range(1, len(body) + 1):
        seen += len(dispatched(splitter.feed(body[end - 1 : end])))
        # A CR ends a line before it is known whether an LF follows.
        assert seen == len(by_the_standard(body[:end]))


def test_what_an_event_is_made_of() -> None:
    body = BOM + b": hi\nid: 7\ndata:{\ndata: }\nevent: sglext_ids\n\n\nretry: 1\r\n\r\ndata: [D"
    events, rest = split(body)
    assert events == [
        RawEvent(BOM + b": hi\nid: 7\ndata:{\ndata: }\nevent: sglext_ids\n\n", b"{\n}", b"sglext_ids"),
        RawEvent(b"\n", None),
        RawEvent(b"retry: 1\r\n\r\n", None),
    ]
    assert rest == b"data: [D"


@pytest.mark.parametrize("raw", [b"data: {}\n\n", b"id: {}\r\ndata:{}\r\n\r\n", BOM + b"data: {}\r\r"])
def test_where_the_data_of_one_line_lies(raw: bytes) -> None:
    (event,), _ = split(raw)
    assert raw[event.data_at : event.data_at + 2] == event.data == b"{}"
    assert raw[event.data_at - 1 :].count(b"{}") == 1


def test_the_line_feed_of_a_cut_crlf_belongs_to_the_event_before() -> None:
    events, _ = split(b"data: 1\r\n\r", b"\ndata: 2\n\n")
    assert events == [
        RawEvent(b"data: 1\r\n\r", b"1", data_at=6),
        RawEvent(b"\n", None, continues=True),
        RawEvent(b"data: 2\n\n", b"2", data_at=6),
    ]


def test_an_event_without_its_blank_line_can_be_read() -> None:
    assert parsed_event(b"event: x\ndata: [D") == RawEvent(b"event: x\ndata: [D", b"[D", b"x", 15)


@pytest.mark.parametrize(
    ("raw", "data", "expected"),
    [
        (b": {}\ndata: {}\nid: {}\n\n", b"[]", b": {}\ndata: []\nid: {}\n\n"),
        (b"data:{}\r\n\r\n", b"", b"data:\r\n\r\n"),
        (b"data: {\nid: 1\r\ndata: }\r\n\n", b"{}", b"data: {}\nid: 1\r\n\n"),
        (b"data: {\r\ndata: }\r\n\r\n", b"[\n]", b"data: [\r\ndata: ]\r\n\r\n"),
        (b"data: {}\r\r", b"[\n]", b"data: [\rdata: ]\r\r"),
    ],
)
def test_other_data_is_put_in_its_place(raw: bytes, data: bytes, expected: bytes) -> None:
    assert with_data(parsed_event(raw), data) == expected
    assert parsed_event(expected).data == data
