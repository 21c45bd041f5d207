"""Live streams through the real mitmdump that somebody leaves or breaks off."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import openai
import pytest

from tests.support.backend import Backend, Received, Reply, chat_stream
from tests.support.live_replies import BODY, QUESTION, TEXTS, as_stream, asked, read_events
from tests.support.mitmdump import Proxy


def test_a_harness_that_leaves_after_the_first_event_frees_the_backend_at_once(
    live_proxy: Proxy, backend: Backend
) -> None:
    closed: list[bool] = []
    let_go = threading.Event()

    def endless(received: Received) -> Iterator[bytes]:
        yield chat_stream(received.json, *TEXTS)[0]
        closed.append(received.wait_until_closed())
        let_go.set()

    backend.script = lambda received: as_stream(endless(received))
    with asked(live_proxy, "left-live") as reply:
        first = read_events(reply, 1)
    assert let_go.wait(20)
    assert closed == [True]
    exchange = live_proxy.exchange("left-live")
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("client_left", 200, False)
    assert exchange.reply == first
    assert [arrival.end for arrival in exchange.arrivals] == [len(first)]


def test_a_harness_that_leaves_while_queued_frees_the_backend_at_once(
    live_proxy: Proxy, backend: Backend
) -> None:
    came, let_go = threading.Event(), threading.Event()
    closed: list[bool] = []

    def queue(received: Received) -> Reply:
        came.set()
        closed.append(received.wait_until_closed())
        let_go.set()
        return as_stream([])

    backend.script = queue
    head = (
        f"POST /group/queued/v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", live_proxy.port)) as harness:
        harness.sendall(head.encode() + BODY)
        assert came.wait(20)
    assert let_go.wait(20)
    assert closed == [True]
    exchange = live_proxy.exchange("queued")
    assert (exchange.outcome, exchange.status, exchange.reply) == ("client_left", None, b"")


def test_a_backend_that_dies_before_its_head_gives_502(live_proxy: Proxy, backend: Backend) -> None:
    def die(received: Received) -> Reply:
        raise ConnectionError

    backend.script = die
    with asked(live_proxy, "died-early") as reply:
        assert reply.status == 502
        assert json.load(reply)["error"]["code"] == "backend_failed"
    exchange = live_proxy.exchange("died-early")
    assert (exchange.outcome, exchange.status, exchange.reply) == ("backend_failed", None, b"")


@pytest.mark.parametrize("cut", [0, 40])
def test_a_backend_that_dies_within_its_stream_gives_a_cut_one(
    live_proxy: Proxy, backend: Backend, cut: int
) -> None:
    def die(received: Received) -> Iterator[bytes]:
        events = chat_stream(received.json, *TEXTS)
        yield events[0]
        yield events[1]
        if cut:
            yield events[2][:cut]
        raise ConnectionError

    backend.script = lambda received: as_stream(die(received))
    with asked(live_proxy, f"died-{cut}") as reply, pytest.raises(http.client.IncompleteRead) as broken:
        reply.read()
    assert broken.value.partial == b"".join(chat_stream({"model": "m"}, *TEXTS)[:2])
    exchange = live_proxy.exchange(f"died-{cut}")
    events = chat_stream(backend.received[0].json, *TEXTS)
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("backend_failed", 200, True)
    assert exchange.reply == b"".join(events[:2]) + events[2][:cut]
    assert "incomplete chunked read" in (exchange.error or "")


def test_a_retry_of_the_openai_client_is_an_exchange_of_its_own(live_proxy: Proxy, backend: Backend) -> None:
    def fail_first(received: Received) -> Reply:
        if received.headers["x-stainless-retry-count"] == "0":
            raise ConnectionError
        return as_stream(chat_stream(received.json, *TEXTS))

    backend.script = fail_first
    url = f"{live_proxy.url}/group/retried/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=1) as client:
        stream = client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "It is 4"
    first, second = live_proxy.exchanges("retried")
    assert (first.outcome, second.outcome) == ("backend_failed", "complete")
    assert first.request == second.request
