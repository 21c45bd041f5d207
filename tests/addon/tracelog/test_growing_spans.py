import base64
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.fingerprints import BLOCK
from turnstile.addon.tracelog.growing_spans import growing_spans, remembered

ROW = 48  # bytes
IDS = b",".join(b"%d" % number for number in range(500))
ROUTING = base64.b64encode(random.Random(3).randbytes(200 * ROW))
LONG_ROUTING = base64.b64encode(random.Random(3).randbytes(6000 * ROW))


def reply(ids: bytes = IDS, *routing: bytes) -> bytes:
    choices = b",".join(b'{"bytes":[1,2,3],"routed_experts":"' + text + b'"}' for text in routing)
    return b'{"prompt_token_ids":[' + ids + b'],"choices":[' + choices + b"]}"


def texts(body: bytes) -> list[tuple[str, bytes]]:
    return [(span.kind, body[span.start : span.start + span.size]) for span in growing_spans(body)]


def test_ids_and_the_routing_of_every_choice_are_found_in_their_order() -> None:
    body = reply(IDS, ROUTING, ROUTING[:3000])
    assert texts(body) == [("array", IDS), ("base64", ROUTING), ("base64", ROUTING[:3000])]
    assert texts(body[30:] + body)[-3:] == [("array", IDS), ("base64", ROUTING), ("base64", ROUTING[:3000])]


def test_of_several_arrays_the_longest_is_found() -> None:
    body = b'{"a":[' + IDS[:900] + b'],"b":[' + IDS + b'],"c":[' + IDS[:700] + b"]}"
    assert texts(body) == [("array", IDS)]


@pytest.mark.parametrize(
    "body", [b"[" + b"1," * 400 + b'"2"]', b"[" + b"1," * 400, b"[1,2]", b'"' + b"1" * 1500 + b'"']
)
def test_what_is_no_long_plain_array_does_not_grow(body: bytes) -> None:
    assert growing_spans(body) == []


def test_an_array_inside_a_string_is_part_of_the_string() -> None:
    text = ROUTING + b"[" + IDS + b"]"
    assert texts(b'{"a":"' + text + b'"}') == [("base64", text)]


def shared(earlier: bytes, later: bytes) -> int:
    """As it is found with the earlier reply in memory."""
    one, other = growing_spans(reply(IDS, earlier))[1], growing_spans(reply(b"1,2", later))[0]
    return one.repeated_by(other)


def shared_by_fingerprint(earlier: bytes, later: bytes) -> int:
    one, other = growing_spans(reply(IDS, earlier))[1], growing_spans(reply(b"1,2", later))[0]
    one.let_go()
    return one.repeated_by(other)


EITHER_WAY = pytest.mark.parametrize("shared", [shared, shared_by_fingerprint])


@EITHER_WAY
def test_routing_that_only_grew_is_shared_whole(shared: Callable[[bytes, bytes], int]) -> None:
    assert shared(ROUTING[: 100 * 64], ROUTING) == 100 * 64
    assert shared(LONG_ROUTING[: 5000 * 64], LONG_ROUTING) == 5000 * 64


@EITHER_WAY
def test_shared_routing_ends_where_whole_integers_do(shared: Callable[[bytes, bytes], int]) -> None:
    raw = base64.b64decode(ROUTING)
    for size in range(100 * ROW, 101 * ROW, 4):
        assert shared(base64.b64encode(raw[:size]), ROUTING) == size // 12 * 16


@pytest.mark.parametrize("at", [5000, 65535, 65536, 300_001])
def test_in_memory_a_difference_is_found_where_it_is(at: int) -> None:
    changed = LONG_ROUTING[:at] + b"-" + LONG_ROUTING[at + 1 :]
    assert shared(LONG_ROUTING, changed) == at // 16 * 16
    assert 0 <= at - shared_by_fingerprint(LONG_ROUTING, changed) < BLOCK


def test_the_first_choice_is_remembered() -> None:
    array, first, other = growing_spans(reply(IDS, ROUTING, ROUTING[3000:]))
    assert remembered([array, first, other]) == {"array": array, "base64": first}


def test_only_for_long_spans_the_reply_is_held() -> None:
    short, long = reply(IDS, ROUTING), reply(IDS, LONG_ROUTING)
    assert [span.held for span in remembered(growing_spans(short)).values()] == [0, 0]
    array, routing = remembered(growing_spans(long)).values()
    assert sorted([array.held, routing.held]) == [0, len(long)]


def test_what_was_let_go_takes_little_memory() -> None:
    _, span = growing_spans(reply(IDS, LONG_ROUTING))
    span.let_go()
    span.let_go()
    assert span.held == 0
    assert span.memory < len(LONG_ROUTING) / 50


@given(st.integers(1400, 9000), st.integers(1400, 9000), st.integers(0, 9000))
def test_what_is_said_to_be_shared_is_the_same(one: int, other: int, differs: int) -> None:
    raw = random.Random(4).randbytes(9001)
    changed = raw[:differs] + bytes([raw[differs] ^ 1]) + raw[differs + 1 :]
    earlier, later = base64.b64encode(raw[: one + 200]), base64.b64encode(changed[: other + 200])
    for size in (shared(earlier, later), shared_by_fingerprint(earlier, later)):
        assert earlier[:size] == later[:size]
        assert size % 16 == 0
