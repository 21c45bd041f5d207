"""Delta through the real mitmdump, against a stand-in with a prefix cache."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.backend import EVENT_STREAM, Backend, Received, Reply, chat_stream, running_backend
from tests.support.mitmdump import Proxy, full_disk, running_mitmdump
from tests.support.moe_server import ANSWER, MoeServer, row_numbers
from tests.support.moe_turns import ANSWERED, MORE, ask, starts, turns
from turnstile.addon.capture.known_prefixes import OVERLAP_ROWS
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.compilation import compile_logs

MOE = {"enable_return_routed_experts": True}


@pytest.fixture
def server() -> MoeServer:
    return MoeServer()


@pytest.fixture
def moe_backend(server: MoeServer) -> Iterator[Backend]:
    with running_backend(server_info=MOE) as backend:
        backend.script = server
        yield backend


@pytest.fixture
def delta(moe_backend: Backend, log_directory: Path) -> Iterator[Proxy]:
    with running_mitmdump(moe_backend.url, log_directory, moe="delta") as proxy:
        yield proxy


def meta_info(exchange: Exchange) -> Any:
    return json.loads(exchange.reply)["choices"][0]["meta_info"]


def test_later_turns_are_asked_for_the_rows_that_are_not_known(delta: Proxy, moe_backend: Backend) -> None:
    turns(delta, 4)
    assert delta.health()["moe"] == {"mode": "delta", "asked": True}
    infos = [meta_info(exchange) for exchange in delta.exchanges("g")]
    tokens = [info["prompt_tokens"] + info["completion_tokens"] for info in infos]
    # what is known of the second is that nothing of it was cached for the first
    expected = [0, 0, *(count - 1 - OVERLAP_ROWS for count in tokens[1:3])]
    assert starts(moe_backend) == expected
    came = [row_numbers(info["routed_experts"]) for info in infos]
    assert came == [list(range(start, end - 1)) for start, end in zip(expected, tokens, strict=True)]


def test_the_harness_sees_nothing_of_it(delta: Proxy) -> None:
    body = json.dumps({"model": "m", "messages": turns(delta, 3)}).encode()
    reply = delta.ask("POST", "/group/g/rollout/r/v1/chat/completions", body).json
    assert "routed_experts" not in json.dumps(reply)
    assert reply["choices"][0].keys() == {"index", "message", "logprobs", "finish_reason", "matched_stop"}


def test_a_harness_that_streams_is_asked_for_a_part_too_where_streams_are_buffered(
    delta: Proxy, moe_backend: Backend
) -> None:
    messages = turns(delta, 2)
    with openai.OpenAI(base_url=f"{delta.url}/group/g/rollout/r/v1", api_key="key") as client:
        for _ in client.chat.completions.create(model="m", messages=messages, stream=True):
            pass
    assert starts(moe_backend)[-1] > 0


def test_a_harnesss_own_fields_stay_its_own(delta: Proxy, moe_backend: Backend) -> None:
    messages = turns(delta, 2)
    ask(delta, messages, return_routed_experts=True)
    ask(delta, messages, return_routed_experts=True, routed_experts_start_len=1)
    assert starts(moe_backend)[-2:] == [0, 1]
    messages += [ANSWERED, MORE]
    ask(delta, messages)
    all_rows = delta.exchanges("g")[2]
    assert starts(moe_backend)[-1] == len(row_numbers(meta_info(all_rows)["routed_experts"])) - OVERLAP_ROWS


def test_rows_that_only_the_harness_asked_for_are_not_known_to_be_all(
    delta: Proxy, moe_backend: Backend
) -> None:
    messages = turns(delta, 2, return_routed_experts=True, routed_experts_start_len=1)
    ask(delta, messages)
    assert starts(moe_backend) == [1, 1, 0]


def test_a_new_weight_version_makes_every_conversation_ask_for_all(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)
    server.weight_version = "step-2"
    ask(delta, [MORE])  # another conversation
    ask(delta, messages)
    assert starts(moe_backend)[-2:] == [0, 0]


def test_a_backend_that_was_away_is_asked_for_all(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)
    moe_backend.script = lambda received: Reply(b"", status=502)
    with pytest.raises(openai.InternalServerError):
        ask(delta, [MORE])
    moe_backend.script = server
    ask(delta, messages)
    assert starts(moe_backend)[-1] == 0


def test_after_an_answer_that_never_came_the_next_request_asks_for_all(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)

    def cut(received: Received) -> Reply:
        reply = server(received)
        reply.status = 500
        return reply

    moe_backend.script = cut
    with pytest.raises(openai.InternalServerError):
        ask(delta, messages)
    moe_backend.script = server
    ask(delta, messages)
    assert starts(moe_backend)[-2] > 0
    assert starts(moe_backend)[-1] == 0


@pytest.mark.parametrize("n", [1, 2])  # of several samples all rows are asked for
def test_after_a_harness_that_left_the_next_request_asks_for_all(
    delta: Proxy, moe_backend: Backend, server: MoeServer, n: int
) -> None:
    messages = turns(delta, 2)
    asked, let_go = threading.Event(), threading.Event()

    def hang(received: Received) -> Reply:
        asked.set()
        received.wait_until_closed()
        let_go.set()
        return Reply(b"{}")

    moe_backend.script = hang
    sent = json.dumps({"model": "m", "messages": messages, "n": n}).encode()
    head = f"POST /group/g/rollout/r/v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(sent)}"
    with socket.create_connection(("127.0.0.1", delta.port)) as harness:
        harness.sendall(f"{head}\r\n\r\n".encode() + sent)
        assert asked.wait(20)
    assert let_go.wait(20)
    assert delta.exchanges("g")[-1].outcome == "client_left"
    moe_backend.script = server
    ask(delta, messages)
    assert (starts(moe_backend)[-2] > 0) == (n == 1)
    assert starts(moe_backend)[-1] == 0


def test_rows_that_the_backend_lost_are_asked_for_once_more(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)
    server.flush()
    answer = ask(delta, messages)
    assert answer.choices[0].message.content == ANSWER
    exchange = delta.exchanges("g")[-1]
    start = starts(moe_backend)[-2]
    assert (start > 0, starts(moe_backend)[-1]) == (True, 0)
    assert row_numbers(meta_info(exchange)["routed_experts"])[0] == start
    second = json.loads(exchange.all_rows_reply)["choices"][0]["meta_info"]
    assert row_numbers(second["routed_experts"]) == [*range(second["prompt_tokens"])]
    assert (second["completion_tokens"], second["cached_tokens"]) == (1, second["prompt_tokens"] - 1)
    (sequence,) = compile_logs(delta.log_directory)
    assert len(sequence.exchanges) == 3
    ask(delta, [*messages, ANSWERED, MORE])
    assert starts(moe_backend)[-1] == 0


def test_without_an_answer_rows_that_the_backend_lost_are_unknown(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)
    server.flush()

    def busy(received: Received) -> Reply:
        is_second = received.json.get("max_completion_tokens") == 1
        return Reply(b"busy", status=503) if is_second else server(received)

    moe_backend.script = busy
    assert ask(delta, messages).choices[0].message.content == ANSWER
    exchange = delta.exchanges("g")[-1]
    assert (exchange.outcome, exchange.error, exchange.all_rows_reply) == ("complete", None, b"")


def test_an_exchange_that_lacks_ids_is_not_known(
    delta: Proxy, moe_backend: Backend, server: MoeServer
) -> None:
    messages = turns(delta, 2)
    ask(delta, messages)

    def without_ids(received: Received) -> Reply:
        reply = server(received)
        assert isinstance(reply.body, bytes)
        reply.body = reply.body.replace(b'"prompt_token_ids"', b'"ids"')
        return reply

    moe_backend.script = without_ids
    messages += [ANSWERED, MORE]
    ask(delta, messages)
    ask(delta, [*messages, ANSWERED, MORE])
    assert starts(moe_backend)[-1] == starts(moe_backend)[-2] > 0


def test_an_exchange_that_could_not_be_written_is_not_known(delta: Proxy, moe_backend: Backend) -> None:
    messages = turns(delta, 2)
    with full_disk(delta), pytest.raises(openai.APIStatusError) as refused:
        ask(delta, messages)
    assert refused.value.status_code == 507
    ask(delta, [*messages, ANSWERED, MORE])
    assert starts(moe_backend)[-1] == starts(moe_backend)[-2] > 0


def test_a_weight_version_that_was_read_after_a_stream_makes_every_conversation_ask_for_all(
    moe_backend: Backend, server: MoeServer, log_directory: Path
) -> None:
    with running_mitmdump(moe_backend.url, log_directory, moe="delta", streaming="live") as proxy:
        messages = turns(proxy, 2)
        moe_backend.model_info["weight_version"] = "step-2"
        moe_backend.script = lambda received: Reply(chat_stream(received.json, "4"), headers=EVENT_STREAM)
        stream = json.dumps({"model": "m", "messages": [MORE], "stream": True}).encode()
        proxy.ask("POST", "/v1/chat/completions", stream)
        assert [reading.weight_version for reading in proxy.weight_readings()] == ["step-1", "step-2"]
        moe_backend.script = server
        ask(proxy, messages)
    assert starts(moe_backend)[-1] == 0


def test_a_live_stream_is_asked_for_all_rows(
    moe_backend: Backend, server: MoeServer, log_directory: Path
) -> None:
    with running_mitmdump(moe_backend.url, log_directory, moe="delta", streaming="live") as proxy:
        messages = turns(proxy, 2)
        body = json.dumps({"model": "m", "messages": messages, "stream": True}).encode()
        proxy.ask("POST", "/group/g/rollout/r/v1/chat/completions", body)
        ask(proxy, messages)
    asked = [received.json for received in moe_backend.received[-2:]]
    assert [each["return_routed_experts"] for each in asked] == [True, True]
    assert [each.get("routed_experts_start_len", 0) > 0 for each in asked] == [False, True]


def test_an_old_server_is_asked_for_all_rows_and_said_to_be_old(
    moe_backend: Backend, log_directory: Path
) -> None:
    moe_backend.server_info["version"] = "0.5.11"
    with running_mitmdump(moe_backend.url, log_directory, moe="delta") as proxy:
        turns(proxy, 3)
        assert starts(moe_backend) == [0, 0, 0]
        (problem,) = proxy.health()["problems"]
        assert problem.endswith("upgrade to 0.5.12 or later")
