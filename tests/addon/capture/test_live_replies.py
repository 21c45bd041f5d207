"""Live streams through the real mitmdump: what the harness gets, and what is recorded of it."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.support.backend import EVENT_STREAM, Backend, Reply, chat_reply, chat_stream
from tests.support.live_replies import BODY, DONE, QUESTION, TEXTS, as_stream, ask, asked, expected, streams
from tests.support.mitmdump import Proxy


@pytest.fixture
def client(live_proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    url = f"{live_proxy.url}/group/{request.node.name}/v1"
    with openai.OpenAI(base_url=url, api_key="harness-key", max_retries=0) as made:
        yield made


def test_a_stream_reaches_the_harness_as_if_nothing_had_been_asked_and_the_log_as_it_came(
    live_proxy: Proxy, backend: Backend
) -> None:
    backend.script = streams()
    with asked(live_proxy, "live") as reply:
        assert reply.headers["content-type"] == EVENT_STREAM["content-type"]
        assert reply.read() == expected()
    (received,), exchange = backend.received, live_proxy.exchange("live")
    assert received.json["stream"] is True
    assert exchange.request == BODY
    assert exchange.forwarded() == received.body != BODY
    assert exchange.reply == b"".join(chat_stream(received.json, *TEXTS)) != expected()
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("complete", 200, True)
    assert (exchange.missing, exchange.error) == ((), None)
    ends = [arrival.end for arrival in exchange.arrivals]
    times = [arrival.after_s for arrival in exchange.arrivals]
    assert (ends[-1], ends) == (len(exchange.reply), sorted(set(ends)))
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= exchange.duration_s


def test_the_openai_client_reads_its_stream(client: openai.OpenAI, backend: Backend) -> None:
    backend.script = streams()
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model="m", messages=QUESTION, stream=True, stream_options=options
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "It is 4"
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [6]


def test_the_openai_stream_helper_puts_the_completion_together(
    client: openai.OpenAI, backend: Backend
) -> None:
    backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS, stops=True))
    with client.chat.completions.stream(model="m", messages=QUESTION, logprobs=True) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("It is 4", "stop")
    assert choice.logprobs is not None
    assert [row.logprob for row in choice.logprobs.content or ()] == [-0.5, -1.0, -1.5]


async def test_the_async_openai_client_reads_its_stream(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = streams()
    url = f"{live_proxy.url}/group/async/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="harness-key", max_retries=0) as client:
        stream = await client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        said = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert said == ["", *TEXTS, ""]


def test_a_request_that_does_not_stream_is_captured_as_ever(live_proxy: Proxy, backend: Backend) -> None:
    body = json.dumps({"model": "m", "messages": QUESTION}).encode()
    assert json.loads(ask(live_proxy, "whole", body)) == json.loads(chat_reply({"model": "m"}))
    exchange = live_proxy.exchange("whole")
    assert (exchange.reply, exchange.arrivals) == (chat_reply(backend.received[0].json), ())


def test_the_weights_are_read_before_and_after_a_stream(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = streams()
    ask(live_proxy, "earlier")
    assert live_proxy.weight_readings()
    ask(live_proxy, "weights")
    readings, exchange = live_proxy.weight_readings(), live_proxy.exchange("weights")
    assert {reading.weight_version for reading in readings} == {"step-1"}
    assert readings[0].answered_at <= exchange.started_at
    assert exchange.started_at + exchange.duration_s <= readings[-1].asked_at


@pytest.mark.parametrize("status", [400, 503])
def test_an_error_instead_of_a_stream_passes_as_it_is(
    live_proxy: Proxy, backend: Backend, status: int
) -> None:
    error = b'{"object": "error",  "message": "too long"}'
    backend.script = lambda received: Reply(error, status=status)
    with asked(live_proxy, f"error-{status}") as reply:
        assert (reply.status, reply.read()) == (status, error)
    exchange = live_proxy.exchange(f"error-{status}")
    assert (exchange.outcome, exchange.status, exchange.reply) == ("complete", status, error)


def test_a_whole_answer_to_a_request_for_a_stream_becomes_one(live_proxy: Proxy, backend: Backend) -> None:
    answer = chat_reply({"model": "m"})
    backend.script = lambda received: Reply(answer)
    assert ask(live_proxy, "whole-answer").endswith(DONE)
    assert live_proxy.exchange("whole-answer").reply == answer


def test_a_stream_for_a_request_that_cannot_be_read_passes_as_it_comes(
    live_proxy: Proxy, backend: Backend
) -> None:
    events = chat_stream(
        {"return_output_ids_in_sglext": True, "stream_options": {"include_usage": True}}, "a"
    )
    backend.script = lambda received: as_stream(events)
    assert ask(live_proxy, "unreadable", b"no JSON") == b"".join(events)
    exchange = live_proxy.exchange("unreadable")
    assert (exchange.reply, exchange.request, exchange.splices) == (b"".join(events), b"no JSON", ())
