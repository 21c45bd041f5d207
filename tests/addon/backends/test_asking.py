import json
from typing import Any

import pytest

from tests.support.chat import chat_request, compact
from turnstile.addon.backends.asking import (
    INPUT_IDS_IN_SGLEXT,
    LOGPROBS,
    META_INFO,
    OUTPUT_IDS_IN_SGLEXT,
    PROMPT_IDS,
    ROUTED_EXPERTS,
    ROUTING_START,
    TOKEN_IDS,
    Asking,
    Harness,
    ask_all_rows,
    ask_chat,
    ask_chat_live,
    harness_of,
)
from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.tracelog.records import spliced

SGLANG = BackendFacts(kind="sglang", version=(0, 5, 23))
OLD_SGLANG = BackendFacts(kind="sglang", version=(0, 5, 9))
VLLM = BackendFacts(kind="vllm", version=(0, 33, 0))


def forwarded(body: bytes, facts: BackendFacts | None = SGLANG, **options: Any) -> bytes:
    return spliced(body, ask_chat(body, facts, **options).splices)


def test_a_plain_request_asks_for_ids_and_logprobs() -> None:
    body = b'{"model":"m", "messages":[]}'
    assert forwarded(body) == (
        b'{"model":"m", "messages":[],"logprobs":true,"return_meta_info":true,"return_prompt_token_ids":true}'
    )


def test_a_stream_is_asked_for_as_a_whole() -> None:
    body = b'{"stream":true,"stream_options":{"include_usage":true},"messages":[]}'
    assert json.loads(forwarded(body)) == {
        "stream": False,
        "messages": [],
        "logprobs": True,
        "return_meta_info": True,
        "return_prompt_token_ids": True,
    }


def test_stream_options_of_a_request_that_does_not_stream_are_the_harnesss_own() -> None:
    assert b"stream_options" in forwarded(chat_request(stream=False, stream_options={"include_usage": True}))


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        (SGLANG, {LOGPROBS, META_INFO, PROMPT_IDS}),
        (OLD_SGLANG, {LOGPROBS, META_INFO, PROMPT_IDS}),
        (BackendFacts(kind="sglang"), {LOGPROBS, META_INFO, PROMPT_IDS}),
        (VLLM, {LOGPROBS, TOKEN_IDS}),
        (BackendFacts(kind="unknown"), {LOGPROBS, META_INFO, PROMPT_IDS, TOKEN_IDS}),
        (None, {LOGPROBS, META_INFO, PROMPT_IDS, TOKEN_IDS}),
    ],
)
def test_each_engine_is_asked_in_its_own_words(facts: BackendFacts | None, flags: set[str]) -> None:
    asking = ask_chat(chat_request(), facts)
    assert asking.wanted == asking.added == flags
    assert set(json.loads(forwarded(chat_request(), facts))) == {"model", "messages"} | flags


@pytest.mark.parametrize("facts", [SGLANG, VLLM, None])
def test_routed_experts_are_asked_for_only_on_demand(facts: BackendFacts | None) -> None:
    assert ROUTED_EXPERTS not in ask_chat(chat_request(), facts).wanted
    assert json.loads(forwarded(chat_request(), facts, moe="full"))[ROUTED_EXPERTS] is True


def test_routed_experts_are_asked_for_from_some_row_on() -> None:
    asking = ask_chat(chat_request(), SGLANG, moe="full", routing_start=41)
    assert asking.routing_start == 41
    assert spliced(chat_request(), asking.splices).endswith(
        b',"return_routed_experts":true,"routed_experts_start_len":41}'
    )
    for options in ({"moe": "full"}, {"moe": "off", "routing_start": 41}):
        asking = ask_chat(chat_request(), SGLANG, **options)
        assert asking.routing_start == 0
        assert ROUTING_START.encode() not in spliced(chat_request(), asking.splices)


@pytest.mark.parametrize("start", ["null", "0"])
def test_a_start_that_the_harness_leaves_at_its_default_is_replaced(start: str) -> None:
    body = f'{{"routed_experts_start_len": {start}, "return_routed_experts": false}}'.encode()
    assert forwarded(body, moe="full", routing_start=41).startswith(
        b'{"routed_experts_start_len": 41, "return_routed_experts": true,'
    )


@pytest.mark.parametrize("start", ["null", "0"])
def test_a_harness_that_wants_routed_experts_gets_all_of_them(start: str) -> None:
    body = f'{{"return_routed_experts":true,"routed_experts_start_len":{start}}}'.encode()
    asking = ask_chat(body, SGLANG, moe="full", routing_start=41)
    assert (asking.routing_start, asking.harness.names_first_row) == (0, False)
    assert spliced(body, asking.splices).startswith(body[:-1] + b',"logprobs":true')


@pytest.mark.parametrize("start", ["5", "-1", '"12"', "99999", "[]"])
@pytest.mark.parametrize("ask", [ask_chat, ask_chat_live])
def test_a_harness_that_names_a_first_row_gets_what_it_asks_for(start: str, ask: Any) -> None:
    stream = b'{"stream":true,' if ask is ask_chat_live else b"{"
    own = f'"routed_experts_start_len":{start},"n":1}}'.encode()
    asking = ask(stream + own, SGLANG, moe="full", routing_start=41)
    assert (asking.routing_start, asking.harness.names_first_row) == (0, True)
    assert ROUTED_EXPERTS not in asking.wanted
    assert own[:-1] in spliced(stream + own, asking.splices)
    asking = ask(stream + b'"return_routed_experts":true,' + own, SGLANG, moe="full", routing_start=41)
    assert asking.routing_start == 0
    assert ROUTED_EXPERTS in asking.wanted - asking.added


@pytest.mark.parametrize(("n", "start"), [(1, 41), (None, 41), (2, 0), ("2", 0), ("1", 0)])
def test_of_several_samples_all_rows_are_asked_for(n: Any, start: int) -> None:
    assert ask_chat(chat_request(n=n), SGLANG, moe="full", routing_start=41).routing_start == start


def test_what_the_harness_asks_for_itself_is_not_added() -> None:
    body = chat_request(logprobs=True, top_logprobs=3, n=2, return_meta_info=True)
    asking = ask_chat(body, SGLANG)
    assert asking == Asking(
        splices=asking.splices,
        harness=Harness(flags=frozenset({LOGPROBS, META_INFO}), top_logprobs=3, n=2),
        wanted=frozenset({LOGPROBS, META_INFO, PROMPT_IDS}),
    )
    assert asking.added == {PROMPT_IDS}
    assert spliced(body, asking.splices) == body[:-1] + b',"return_prompt_token_ids":true}'


def test_a_request_that_asks_for_everything_stays_as_it_is() -> None:
    body = chat_request(logprobs=True, return_meta_info=True, return_prompt_token_ids=True, stream=False)
    assert ask_chat(body, SGLANG).splices == ()


@pytest.mark.parametrize("value", ["false", "null", "0", '"no"'])
def test_a_flag_that_the_harness_switched_off_is_switched_on_and_stays_its_wish(value: str) -> None:
    body = f'{{"logprobs": {value}, "messages": []}}'.encode()
    asking = ask_chat(body, SGLANG)
    assert LOGPROBS not in asking.harness.flags
    assert LOGPROBS in asking.added
    assert spliced(body, asking.splices).startswith(b'{"logprobs": true, ')


@pytest.mark.parametrize("value", ["true", "1", "1.0", '"true"', '"Yes"'])
def test_what_the_servers_read_as_true_is_true(value: str) -> None:
    body = f'{{"stream": {value}}}'.encode()
    assert ask_chat(body, SGLANG).harness.wants_stream
    assert forwarded(body).startswith(b'{"stream": false,')


@pytest.mark.parametrize("value", ["false", "null", "2", '"maybe"', "[]"])
def test_what_is_not_true_stays_as_it_was_sent(value: str) -> None:
    body = f'{{"stream": {value}}}'.encode()
    assert not ask_chat(body, SGLANG).harness.wants_stream
    assert forwarded(body).startswith(body[:-1] + b",")


@pytest.mark.parametrize("flag", [META_INFO, PROMPT_IDS, TOKEN_IDS])
def test_a_request_that_the_server_refuses_goes_as_it_is(flag: str) -> None:
    body = chat_request(**{"stream": True, flag: True})
    asking = ask_chat(body, SGLANG)
    assert (asking.splices, asking.wanted) == ((), frozenset())
    for facts in (OLD_SGLANG, VLLM, None):
        assert ask_chat(body, facts).splices != ()


@pytest.mark.parametrize(
    ("options", "by_default", "expected"),
    [
        (None, False, False),
        (None, True, True),
        ({"include_usage": True}, False, True),
        ({"include_usage": False}, True, True),  # as SGLang has it
        ({}, False, False),
        ("yes", False, False),
    ],
)
def test_usage_is_wanted_where_request_or_server_say_so(
    options: Any, by_default: bool, expected: bool
) -> None:
    info = {"stream_response_default_include_usage": by_default}
    facts = BackendFacts(kind="sglang", version=(0, 5, 23), server_info=info)
    asking = ask_chat(chat_request(stream=True, stream_options=options), facts)
    assert asking.harness == Harness(wants_stream=True, include_usage=expected)


def test_odd_numbers_of_the_harness_do_not_matter() -> None:
    harness = ask_chat(chat_request(n="2", top_logprobs="all"), SGLANG).harness
    assert (harness.n, harness.top_logprobs) == (1, None)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"text"', compact([{}])])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(AskingError):
        ask_chat(body, SGLANG)
    with pytest.raises(AskingError):
        ask_chat_live(body, SGLANG)


def test_the_wishes_of_a_request_can_be_told_without_a_backend() -> None:
    assert harness_of(chat_request(stream=True, return_token_ids=True)) == Harness(
        wants_stream=True, flags=frozenset({TOKEN_IDS})
    )


OF_STREAMS = frozenset({LOGPROBS, INPUT_IDS_IN_SGLEXT, OUTPUT_IDS_IN_SGLEXT})
IDS = b'"return_input_ids_in_sglext":true,"return_output_ids_in_sglext":true'


def forwarded_live(body: bytes, **options: Any) -> bytes:
    return spliced(body, ask_chat_live(body, SGLANG, **options).splices)


def test_a_stream_stays_one_and_is_asked_for_ids_logprobs_and_usage() -> None:
    body = b'{"stream":true, "messages":[]}'
    assert forwarded_live(body) == (
        b'{"stream":true, "messages":[],"logprobs":true,' + IDS + b',"stream_options":{"include_usage":true}}'
    )
    asking = ask_chat_live(body, SGLANG)
    assert asking == Asking(asking.splices, Harness(wants_stream=True), OF_STREAMS, live=True)
    assert asking.added == OF_STREAMS


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (b'{ "continuous_usage_stats": true }', b'{ "continuous_usage_stats": true,"include_usage":true }'),
        (b'{"include_usage": false, "x": 1e0}', b'{"include_usage": true, "x": 1e0}'),
        (b"{}", b'{"include_usage":true}'),
        (b"null", b'{"include_usage":true}'),
        (b'{"include_usage": 1 }', b'{"include_usage": 1 }'),
        (b'"yes"', b'"yes"'),  # the backend refuses it
    ],
)
@pytest.mark.parametrize("behind", [b"", b', "n":1'])
def test_usage_is_asked_for_inside_the_harnesss_own_options(
    options: bytes, expected: bytes, behind: bytes
) -> None:
    body = b'{"stream":true, "stream_options": ' + options + behind + b"}"
    asked = b'{"stream":true, "stream_options": ' + expected + behind + b',"logprobs":true,' + IDS + b"}"
    assert forwarded_live(body) == asked


def test_usage_that_the_server_gives_anyhow_is_not_asked_for() -> None:
    facts = BackendFacts(kind="sglang", server_info={"stream_response_default_include_usage": True})
    asking = ask_chat_live(chat_request(stream=True), facts)
    assert asking.harness.include_usage
    assert b"stream_options" not in spliced(chat_request(stream=True), asking.splices)


def test_a_stream_that_asks_for_everything_stays_as_it_is() -> None:
    own = {LOGPROBS: True, INPUT_IDS_IN_SGLEXT: True, OUTPUT_IDS_IN_SGLEXT: True, ROUTED_EXPERTS: True}
    body = chat_request(stream=True, stream_options={"include_usage": True}, **own)
    asking = ask_chat_live(body, SGLANG, moe="full")
    assert (asking.splices, asking.added) == ((), frozenset())


def test_a_stream_is_asked_for_routed_experts_only_on_demand() -> None:
    assert ROUTED_EXPERTS not in json.loads(forwarded_live(chat_request(stream=True)))
    asking = ask_chat_live(chat_request(stream=True), SGLANG, moe="full")
    assert asking.wanted == OF_STREAMS | {ROUTED_EXPERTS}
    assert json.loads(forwarded_live(chat_request(stream=True), moe="full"))[ROUTED_EXPERTS] is True


def test_ids_that_the_harness_asks_for_by_a_header_are_its_own() -> None:
    headers = (("X-SGLExt-Return-Input-Ids", "1"), ("x-sglext-return-output-ids", "true"))
    asking = ask_chat_live(chat_request(stream=True), SGLANG, headers=headers)
    assert asking.added == {LOGPROBS, OUTPUT_IDS_IN_SGLEXT}


def test_ids_that_the_server_gives_to_everybody_are_the_harnesss_too() -> None:
    facts = BackendFacts(kind="sglang", server_info={"return_output_ids": True, "return_input_ids": False})
    asking = ask_chat_live(chat_request(stream=True), facts)
    assert asking.wanted == OF_STREAMS
    assert asking.added == {LOGPROBS, INPUT_IDS_IN_SGLEXT}


def test_a_stream_is_asked_for_all_rows() -> None:
    asking = ask_chat_live(chat_request(stream=True), SGLANG, moe="full", routing_start=41)
    assert asking.routing_start == 0
    assert ROUTING_START.encode() not in spliced(chat_request(stream=True), asking.splices)


@pytest.mark.parametrize("facts", [SGLANG, None])
@pytest.mark.parametrize("stream", [False, None, "maybe"])
def test_a_request_without_a_stream_is_asked_as_ever(facts: BackendFacts | None, stream: Any) -> None:
    body = chat_request(stream=stream)
    headers = [("x-sglext-return-input-ids", "1")]
    asking = ask_chat_live(body, facts, moe="full", routing_start=41, headers=headers)
    assert asking == ask_chat(body, facts, moe="full", routing_start=41)
    assert not asking.live


def test_a_stream_that_the_server_refuses_goes_as_it_is() -> None:
    body = chat_request(stream=True, return_meta_info=True)
    asking = ask_chat_live(body, SGLANG)
    assert (asking.splices, asking.wanted, asking.live) == ((), frozenset(), False)


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({}, {"max_completion_tokens": 1}),
        ({"max_tokens": 9}, {"max_tokens": 1}),
        ({"max_tokens": 9, "max_completion_tokens": None}, {"max_tokens": 1, "max_completion_tokens": 1}),
    ],
)
def test_all_rows_are_asked_for_with_one_token_to_sample(limits: Any, asked: Any) -> None:
    body = {"model": "m", "messages": [], "return_routed_experts": True}
    more = {"routed_experts_start_len": 7, "min_tokens": 3, **limits}
    assert json.loads(ask_all_rows(compact(body | more))) == body | asked
