import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.growing_spans import GrowingSpan, first_of_each_kind, growing_spans

ROW = 48  # bytes
IDS = b",".join(b"%d" % number for number in range(500))
ROUTING = base64.b64encode(random.Random(3).randbytes(200 * ROW))


def reply(ids: bytes = IDS, *routing: bytes) -> bytes:
    choices = b",".join(b'{"bytes":[1,2,3],"routed_experts":"' + text + b'"}' for text in routing)
    return b'{"prompt_token_ids":[' + ids + b'],"choices":[' + choices + b"]}"


def texts(body: bytes) -> list[tuple[str, bytes]]:
    return [
        (span.kind, body[span.start : span.start + span.fingerprint.size]) for span in growing_spans(body)
    ]


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
    one, other = reply(IDS, earlier), reply(b"1,2", later)
    return first_of_each_kind(growing_spans(one))["base64"].repeated_by(growing_spans(other)[0], other)


def test_routing_that_only_grew_is_shared_whole() -> None:
    assert shared(ROUTING[: 100 * 64], ROUTING) == 100 * 64


def test_shared_routing_ends_where_whole_integers_do() -> None:
    for size in range(100 * ROW, 101 * ROW, 4):
        raw = base64.b64decode(ROUTING)
        found = shared(base64.b64encode(raw[:size]), ROUTING)
        assert found == size // 12 * 16
        assert base64.b64decode(ROUTING[found:]) == raw[size // 12 * 12 :]


def test_the_first_choice_is_remembered() -> None:
    body = reply(IDS, ROUTING, ROUTING[3000:])
    array, first, _ = growing_spans(body)
    assert first_of_each_kind(growing_spans(body)) == {"array": array, "base64": first}
    assert isinstance(array, GrowingSpan)


@given(st.integers(1400, 9000), st.integers(1400, 9000), st.integers(0, 9000))
def test_what_is_said_to_be_shared_is_the_same(one: int, other: int, differs: int) -> None:
    raw = random.Random(4).randbytes(9001)
    changed = raw[:differs] + bytes([raw[differs] ^ 1]) + raw[differs + 1 :]
    earlier, later = base64.b64encode(raw[: one + 200]), base64.b64encode(changed[: other + 200])
    size = shared(earlier, later)
    assert earlier[:size] == later[:size]
    assert size % 16 == 0
