"""Live streams through the real mitmdump: when their pieces come, how encoded, how large."""

import gzip
import http.client
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from tests.support.backend import Backend, Received, chat_stream
from tests.support.live_replies import (
    BODY,
    DONE,
    JSON,
    TEXTS,
    as_stream,
    ask,
    asked,
    expected,
    read_events,
    streams,
)
from tests.support.mitmdump import Proxy
from turnstile.addon.tracelog.records import Exchange


def test_every_event_reaches_the_harness_before_the_backend_sends_the_next(
    live_proxy: Proxy, backend: Backend
) -> None:
    read = threading.Semaphore(0)

    def one_by_one(received: Received) -> Iterator[bytes]:
        for event in chat_stream(received.json, *TEXTS):
            yield event
            if b'"choices":[{' in event:  # the others are not for the harness
                assert read.acquire(timeout=20)

    backend.script = lambda received: as_stream(one_by_one(received))
    came = b""
    with asked(live_proxy, "paced") as reply:
        for _ in range(len(TEXTS) + 2):
            came += read_events(reply, 1)
            read.release()
        came += reply.read()
    assert came == expected()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_events_may_be_cut_anywhere(live_proxy: Proxy, backend: Backend, size: int) -> None:
    def pieces(received: Received) -> list[bytes]:
        whole = b"".join(chat_stream(received.json, *TEXTS))
        return [whole[at : at + size] for at in range(0, len(whole), size)]

    backend.script = lambda received: as_stream(pieces(received))
    assert ask(live_proxy, f"cut-{size}") == expected()
    exchange = live_proxy.exchange(f"cut-{size}")
    assert exchange.reply == b"".join(chat_stream(backend.received[0].json, *TEXTS))


def test_what_comes_behind_done_passes_too(live_proxy: Proxy, backend: Backend) -> None:
    behind = b": bye\n\ndata: [DONE]\n\ndata: {"
    backend.script = lambda received: as_stream([*chat_stream(received.json, *TEXTS), behind])
    assert ask(live_proxy, "behind") == expected() + behind
    exchange = live_proxy.exchange("behind")
    assert exchange.reply == b"".join(chat_stream(backend.received[0].json, *TEXTS))
    problem = "the backend sends bytes behind [DONE]: they are handed on and not recorded"
    assert problem in live_proxy.health()["problems"]
    assert "INCOMPLETE CAPTURE" in live_proxy.wait_for_line(re.escape(problem)).string
    ask(live_proxy, "behind-again")
    assert live_proxy.health()["problems"].count(problem) == 1


def test_a_stream_without_done_is_recorded_before_the_harness_learns_that_it_ended(
    live_proxy: Proxy, backend: Backend
) -> None:
    backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS)[:-1])
    assert ask(live_proxy, "no-done") == expected().removesuffix(DONE)
    (exchange,) = live_proxy.logged("no-done")
    assert exchange.outcome == "complete"


def test_a_stream_of_known_length_gets_an_end_of_its_own(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: as_stream(b"".join(chat_stream(received.json, *TEXTS)))
    with asked(live_proxy, "length") as reply:
        assert reply.headers["content-length"] is None
        assert reply.headers["transfer-encoding"] == "chunked"
        assert reply.read() == expected()


def test_a_connection_is_kept_after_a_stream(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = streams()
    connection = http.client.HTTPConnection("127.0.0.1", live_proxy.port, timeout=20)
    ports = set()
    for _ in range(3):
        connection.request("POST", "/group/kept-live/v1/chat/completions", BODY, JSON)
        assert connection.getresponse().read() == expected()
        ports.add(connection.sock.getsockname()[1])
    connection.close()
    assert len(ports) == 1
    assert len({exchange.exchange_id for exchange in live_proxy.exchanges("kept-live")}) == 3


def deflated(wbits: int) -> Callable[[bytes], bytes]:
    def compress(body: bytes) -> bytes:
        compressor = zlib.compressobj(wbits=wbits)
        return compressor.compress(body) + compressor.flush()

    return compress


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": deflated(15),
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_stream_that_comes_compressed_is_handed_on_and_recorded_plain(
    live_proxy: Proxy, backend: Backend, encoding: str
) -> None:
    def pieces(received: Received) -> list[bytes]:
        packed = ENCODINGS[encoding](b"".join(chat_stream(received.json, *TEXTS)))
        return [packed[at : at + 50] for at in range(0, len(packed), 50)]

    backend.script = lambda received: as_stream(pieces(received), content_encoding=encoding)
    with asked(live_proxy, f"packed-{encoding}") as reply:
        assert reply.headers["content-encoding"] is None
        assert reply.read() == expected()
    assert backend.received[0].headers["accept-encoding"] == "identity"
    exchange = live_proxy.exchange(f"packed-{encoding}")
    assert exchange.reply_content() == b"".join(chat_stream(backend.received[0].json, *TEXTS))
    assert exchange.error is None


def test_a_stream_in_an_unknown_encoding_passes_untouched_and_its_record_says_so(
    live_proxy: Proxy, backend: Backend
) -> None:
    backend.script = lambda received: as_stream([b"\x00\x01", b"\x02"], content_encoding="x-own")
    with asked(live_proxy, "packed-unknown") as reply:
        assert reply.headers["content-encoding"] == "x-own"
        assert reply.read() == b"\x00\x01\x02"
    exchange = live_proxy.exchange("packed-unknown")
    assert exchange.reply == b"\x00\x01\x02"
    assert "content-encoding 'x-own' cannot be undone" in (exchange.error or "")


def test_a_compressed_stream_that_is_none_loses_no_byte(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: as_stream([b"no gzip", b" at all"], content_encoding="gzip")
    assert ask(live_proxy, "packed-bad") == b"no gzip at all"
    assert "Turnstile failed while handing on a stream" in (live_proxy.exchange("packed-bad").error or "")


def test_twenty_megabytes_each_way_pass_and_are_recorded(live_proxy: Proxy, backend: Backend) -> None:
    texts = ["x y " * 250_000] * 4  # four times as long in its logprobs
    backend.script = streams(*texts)
    body = json.dumps({"model": "m", "messages": [{"content": "x y " * 5_000_000}], "stream": True}).encode()
    assert ask(live_proxy, "big-live", body) == expected(*texts)
    exchange = live_proxy.exchange("big-live")
    assert exchange.request == body
    assert exchange.reply == b"".join(chat_stream(backend.received[0].json, *texts))


def test_sixty_four_streams_at_once_each_get_their_own_events(live_proxy: Proxy, backend: Backend) -> None:
    together = threading.Barrier(64)

    def own_events(received: Received) -> Iterator[bytes]:
        events = iter(chat_stream(received.json, *said(received.body)))
        yield next(events)
        together.wait(20)  # all of them are under way
        yield from events

    def said(request: bytes) -> list[str]:
        number = json.loads(request)["messages"][0]["content"]
        return [f" {number}-{at}" for at in range(20)]

    def one(number: int) -> None:
        body = json.dumps({"model": "m", "messages": [{"content": str(number)}], "stream": True}).encode()
        assert ask(live_proxy, "many-live", body) == expected(*said(body))

    backend.script = lambda received: as_stream(own_events(received))
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(one, range(64)))
    found = live_proxy.exchanges("many-live")
    assert len({exchange.exchange_id for exchange in found}) == 64
    for exchange in found:
        assert exchange.reply == b"".join(
            chat_stream(json.loads(exchange.forwarded()), *said(exchange.request))
        )
    readings = live_proxy.weight_readings()
    assert max(map(ended, found)) <= readings[-1].asked_at


def ended(exchange: Exchange) -> float:
    return exchange.started_at + exchange.duration_s
