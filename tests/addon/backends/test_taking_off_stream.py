import json
from typing import Any

import pytest

from tests.support.chat import chat_request
from tests.support.chat_streams import END, FOUR, begun, chunk, event, sglext, token, usage
from turnstile.addon.backends.asking import ask_chat, ask_chat_live
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.sse import parsed_event
from turnstile.addon.backends.taking_off_stream import (
    Hidden,
    hidden_in,
    says_no_logprobs,
    take_off_chunk,
    take_off_rest,
    without_logprobs,
)

SGLANG = BackendFacts(kind="sglang", version=(0, 5, 23))
IDS = frozenset({"input_ids", "output_ids"})
ALL = Hidden(logprobs=True, usage=True, sglext=IDS)
NOTHING = Hidden(logprobs=False, usage=False, sglext=frozenset())


def hidden(**fields: Any) -> Hidden:
    return hidden_in(ask_chat_live(chat_request(stream=True, **fields), SGLANG, moe="full"))


def test_what_is_hidden_is_what_was_added() -> None:
    routing = frozenset({"routed_experts", "routed_experts_dtype"})
    assert hidden() == Hidden(logprobs=True, usage=True, sglext=IDS | routing)
    assert hidden(logprobs=True, return_routed_experts=True) == Hidden(False, True, IDS)
    assert hidden(stream_options={"include_usage": True}, return_input_ids_in_sglext=True) == Hidden(
        True, False, frozenset({"output_ids"}) | routing
    )


def test_in_a_stream_that_was_not_asked_for_nothing_is_hidden_but_what_was_added() -> None:
    assert hidden_in(ask_chat(chat_request(stream=True, return_meta_info=True), SGLANG)) == NOTHING


@pytest.mark.parametrize("sampled", [[FOUR], [FOUR, END], [(-0.5, 1, 'a"]}],\\')]])
def test_logprobs_in_the_layout_of_sglang_are_found_by_their_bytes(sampled: list[Any]) -> None:
    raw = b"id: 1\n" + event(chunk(0, *sampled, said={"content": '"logprobs":null'})) + b""
    found = parsed_event(raw)
    assert found.data is not None
    blank = b"id: 1\n" + event(chunk(said={"content": '"logprobs":null'}))
    assert without_logprobs(found, found.data) == blank


@pytest.mark.parametrize(
    "raw",
    [
        event(begun()),
        event(chunk(0, FOUR, finish_reason="stop")),
        event(chunk(0, FOUR) | {"usage": None}),
        event(json.dumps(chunk(0, FOUR)).encode()),
        event(chunk(0, FOUR)).replace(b"[{", b"[\ndata: {"),
        event({"choices": [*chunk(0, FOUR)["choices"], *chunk(1, FOUR)["choices"]]}),
    ],
)
def test_in_another_layout_they_are_not(raw: bytes) -> None:
    found = parsed_event(raw)
    assert found.data is not None
    assert without_logprobs(found, found.data) is None


def test_a_chunk_without_logprobs_is_told_by_its_bytes() -> None:
    said = [event(each)[6:-2] for each in (begun(), chunk(said={"content": '"logprobs":'}), token(0, FOUR))]
    assert [says_no_logprobs(data) for data in said] == [True, True, False]
    two = {"choices": [*chunk(0, FOUR)["choices"], *chunk(1)["choices"]]}
    assert not says_no_logprobs(event(two)[6:-2])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"choices":[],"usage":null,"sglext":{"input_ids":[1]}}', None),
        (b'{"choices":[],"usage":{},"sglext":{"input_ids":[1],"x":null}}', None),
        (b'{"choices":[],"usage":{}}', None),
        (b'{"usage":{}}', b'{"usage":{}}'),
        (b'{"choices":[],"sglext":{"x":1}}', b'{"choices":[],"sglext":{"x":1}}'),
        (b'{"choices":[], "sglext":{"x":1, "input_ids":[1]}}', b'{"choices":[], "sglext":{"x":1}}'),
        (b'{"choices":[],"usage":{},"error":1}', b'{"choices":[],"usage":null,"error":1}'),
        (b'{"choices":[{}] , "sglext":{"input_ids":[]}}', b'{"choices":[{}]}'),
        (b'{"choices":[{"logprobs":{}}],"sglext":5}', b'{"choices":[{"logprobs":null}],"sglext":5}'),
    ],
)
def test_a_chunk_goes_or_loses_what_was_added(data: bytes, expected: bytes | None) -> None:
    assert take_off_chunk(data, json.loads(data), ALL) == expected


@pytest.mark.parametrize("each", [begun(), token(0, FOUR), sglext(input_ids=[1]), usage()])
def test_where_nothing_was_added_the_chunk_is_its_own(each: dict[str, Any]) -> None:
    data = event(each)[6:-2]
    assert take_off_chunk(data, each, NOTHING) is data
    assert take_off_rest(parsed_event(event(each)[:-9]), NOTHING) == event(each)[:-9]
