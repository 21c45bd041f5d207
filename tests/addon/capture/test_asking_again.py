"""A start that the backend refuses, through the real mitmdump."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.test import tflow

from tests.support.backend import Backend, Received, Reply, running_backend
from tests.support.mitmdump import Proxy, running_mitmdump
from tests.support.moe_server import ANSWER, JSON, MoeServer, refusal, row_numbers
from turnstile.addon.capture.asking_again import ask_again
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.onlookers import Onlookers
from turnstile.addon.capture.options import Settings
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.session import open_session

PATH = "/group/g/rollout/r/v1/chat/completions"
QUESTION = {"role": "user", "content": "what is two and two , and how do you know it ?"}
MORE = {"role": "user", "content": "and why is it not five ?"}
TURNS: list[Any] = [QUESTION, {"role": "assistant", "content": ANSWER}, MORE]


def chats(backend: Backend) -> list[Received]:
    """The requests for a completion; those for a prompt's ids, which this server does not tell, left out."""
    return [received for received in backend.received if received.path != "/tokenize"]


class Refusing(MoeServer):
    """Refuses every start."""

    def __call__(self, received: Received) -> Reply:
        if received.path == "/tokenize":
            return Reply(b"{}", status=404, headers=JSON)
        if start := received.json.get("routed_experts_start_len"):
            return Reply(refusal(start, 7), status=400, headers=JSON)
        return self.again(received)

    def again(self, received: Received) -> Reply:
        return super().__call__(received)


@contextlib.contextmanager
def set_up(log_directory: Path, server: MoeServer) -> Iterator[tuple[Proxy, Backend]]:
    """A proxy in delta that knows the first turn, and will ask for a part of the second."""
    with running_backend(server_info={"enable_return_routed_experts": True}) as backend:
        backend.script = server
        with running_mitmdump(backend.url, log_directory, moe="delta") as proxy:
            for _ in range(2):  # the second time the backend has the prompt in its cache
                assert proxy.ask("POST", PATH, body(TURNS[:1])).status == 200
            backend.received.clear()
            yield proxy, backend


@pytest.fixture
def refused(log_directory: Path) -> Iterator[tuple[Proxy, Backend]]:
    with set_up(log_directory, Refusing()) as both:
        yield both


def body(messages: list[Any], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages} | fields).encode()


def test_the_harness_gets_the_answer_to_the_request_without_a_start(refused: tuple[Proxy, Backend]) -> None:
    proxy, backend = refused
    reply = proxy.ask("POST", PATH, body(TURNS), {"content-type": "application/json"})
    assert (reply.status, reply.json["choices"][0]["message"]["content"]) == (200, ANSWER)
    assert "meta_info" not in reply.json["choices"][0]
    first, second = (received.json for received in chats(backend))
    assert first.pop("routed_experts_start_len") > 0
    assert first == second


def test_the_record_is_that_of_the_request_that_was_answered(refused: tuple[Proxy, Backend]) -> None:
    proxy, backend = refused
    proxy.ask("POST", PATH, body(TURNS))
    exchange = proxy.exchanges("g")[-1]
    assert (exchange.status, exchange.outcome, exchange.delivered) == (200, "complete", True)
    assert (exchange.missing, exchange.error) == ((), None)
    assert exchange.request == body(TURNS)
    assert exchange.forwarded() == chats(backend)[-1].body
    meta_info = json.loads(exchange.reply)["choices"][0]["meta_info"]
    came = row_numbers(meta_info["routed_experts"])
    assert came == list(range(meta_info["prompt_tokens"] + meta_info["completion_tokens"] - 1))
    assert proxy.health()["capture"]["captured"] == 3
    assert proxy.health()["problems"] == []


def test_a_harness_that_streams_gets_its_stream(refused: tuple[Proxy, Backend]) -> None:
    proxy, _ = refused
    reply = proxy.ask("POST", PATH, body(TURNS, stream=True))
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.body.endswith(b"data: [DONE]\n\n")


def test_the_second_request_has_the_headers_and_the_path_of_the_first(refused: tuple[Proxy, Backend]) -> None:
    proxy, backend = refused
    headers = {"Authorization": "Bearer of-the-backend", "X-Request-Id": "one", "X-Turnstile-Group": "no"}
    proxy.ask("POST", f"{PATH}?x=%20y", body(TURNS), headers)
    first, second = chats(backend)
    assert second.headers.pop("content-length") == str(len(second.body))
    assert first.headers.pop("content-length") == str(len(first.body))
    assert second.headers == first.headers
    assert second.path == first.path == "/v1/chat/completions?x=%20y"


def test_a_path_with_bytes_beyond_ascii_is_one_that_the_backend_reads_the_same_way(
    refused: tuple[Proxy, Backend],
) -> None:
    proxy, backend = refused
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    sent = body(TURNS)
    head = f"POST {PATH}?x=é HTTP/1.1\r\nHost: h\r\nContent-Length: {len(sent)}\r\n\r\n"
    connection.connect()
    connection.sock.sendall(head.encode() + sent)
    response = http.client.HTTPResponse(connection.sock)
    response.begin()
    assert response.status == 200
    response.close()
    connection.close()
    assert chats(backend)[-1].path == "/v1/chat/completions?x=%C3%A9"


def test_a_chunked_reply_is_handed_on(log_directory: Path) -> None:
    class Chunked(Refusing):
        def again(self, received: Received) -> Reply:
            whole = super().again(received).body
            assert isinstance(whole, bytes)
            return Reply([whole[:9], whole[9:]])

    with set_up(log_directory, Chunked()) as (proxy, _):
        own = {"logprobs": True, "return_meta_info": True, "return_prompt_token_ids": True}
        for fields in ({}, own):
            assert proxy.ask("POST", PATH, body(TURNS, **fields)).json["choices"]


def test_a_prompt_that_a_template_made_shorter_is_asked_for_again(log_directory: Path) -> None:
    server = MoeServer()
    with set_up(log_directory, server) as (proxy, backend):
        messages = TURNS
        for _ in range(2):  # answers come back
            proxy.ask("POST", PATH, body(messages))
            messages = [*messages, *TURNS[1:]]
        server.drops_answers = True
        server.flush()  # nor does what it has cached tell anything
        starts = []
        for _ in range(3):
            backend.received.clear()
            assert proxy.ask("POST", PATH, body(messages)).status == 200
            starts.append([received.json.get("routed_experts_start_len", 0) for received in chats(backend)])
            messages = [*messages, *TURNS[1:]]
        assert starts[0][0] > len(server.prompt(messages[:7]))
        assert [len(each) for each in starts] == [2, 1, 1]  # asked again once, and then no longer
        assert starts[0][1] == 0


@pytest.mark.parametrize("status", [400, 503])
def test_an_error_to_the_second_request_is_the_harnesss(log_directory: Path, status: int) -> None:
    class Full(Refusing):
        full = False

        def again(self, received: Received) -> Reply:
            error = b'{"object": "error", "message": "The request queue is full."}'
            return Reply(error, status=status, headers=JSON) if self.full else super().again(received)

    server = Full()
    with set_up(log_directory, server) as (proxy, backend):
        server.full = True
        reply = proxy.ask("POST", PATH, body(TURNS))
        assert (reply.status, reply.json["message"]) == (status, "The request queue is full.")
        exchange = proxy.exchanges("g")[-1]
        assert (exchange.status, exchange.forwarded()) == (status, chats(backend)[-1].body)
        assert len(chats(backend)) == 2


def test_a_backend_that_dies_over_the_second_request_gives_502_in_openais_shape(log_directory: Path) -> None:
    class Dying(Refusing):
        dies = False

        def again(self, received: Received) -> Reply:
            reply = super().again(received)
            reply.cut_after = 40 if self.dies else None
            return reply

    server = Dying()
    with set_up(log_directory, server) as (proxy, backend):
        server.dies = True
        reply = proxy.ask("POST", PATH, body(TURNS))
        assert (reply.status, reply.json["error"]["code"]) == (502, "backend_failed")
        exchange = proxy.exchanges("g")[-1]
        assert (exchange.outcome, exchange.status, exchange.delivered) == ("backend_failed", None, True)
        assert exchange.forwarded() == chats(backend)[-1].body
        assert exchange.error
        server.dies = False
        assert proxy.ask("POST", PATH, body(TURNS)).status == 200


def test_the_proxy_ends_while_it_waits_for_the_second_reply(log_directory: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    class Slow(Refusing):
        slow = False

        def again(self, received: Received) -> Reply:
            if self.slow:
                asked.set()
                assert go.wait(20)
            return super().again(received)

    server = Slow()
    with set_up(log_directory, server) as (proxy, _):
        server.slow = True
        harness = threading.Thread(target=_ask_in_vain, args=(proxy,))
        harness.start()
        assert asked.wait(20)
        try:
            assert proxy.stop() == 0
        finally:
            go.set()
            harness.join()
        exchange = proxy.logged("g")[-1]
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("interrupted", 400, False)
    assert b"routed_experts_start_len" in exchange.forwarded()


async def test_a_reply_that_comes_after_the_proxy_has_stopped_is_nobodys(log_directory: Path) -> None:
    with running_backend() as backend:
        session = open_session(
            Settings(
                backend_url=backend.url,
                log_directory=log_directory,
                rotate_bytes=1 << 20,
                backend="auto",
                streaming="buffered",
                moe="delta",
                durability="record",
                on_log_error="fail",
                secret=b"",
                redacted_headers=frozenset(),
                image_hosts=None,
            ),
            Onlookers(),
        )
        flow = tflow.tflow(resp=True)
        held = InFlight(
            exchange_id="x",
            flow=flow,
            route=Route("chat", "/v1/chat/completions", "g", None),
            redacted_headers=frozenset(),
            request_headers=(),
            request=body(TURNS),
        )
        assert not await ask_again(session, held)
        session.recorder.close()
    assert flow.response is not None
    assert flow.response.status_code == 503
    assert held.splices == ()


def _ask_in_vain(proxy: Proxy) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        proxy.ask("POST", PATH, body(TURNS))
