"""Live streams through the real mitmdump: what the harness gets, when, and what is recorded of it."""

import contextlib
import gzip
import http.client
import json
import re
import signal
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import openai
import pytest
import zstandard

from tests.support.backend import (
    EVENT_STREAM,
    Backend,
    Received,
    Reply,
    chat_reply,
    chat_stream,
    running_backend,
)
from tests.support.mitmdump import Proxy, full_disk, running_mitmdump
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Exchange

QUESTION: Any = [{"role": "user", "content": "2+2?"}]
BODY = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
JSON = {"content-type": "application/json"}
TEXTS = ("It", " is", " 4")
DONE = b"data: [DONE]\n\n"
ASKED_FOR = {
    "return_input_ids_in_sglext": True,
    "return_output_ids_in_sglext": True,
    "stream_options": {"include_usage": True},
}


def expected(*texts: str) -> bytes:
    """What the backend would send to the harness's own request."""
    return b"".join(chat_stream({"model": "m"}, *(texts or TEXTS)))


def as_stream(body: bytes | Iterable[bytes], **headers: str) -> Reply:
    return Reply(body, headers=EVENT_STREAM | {name.replace("_", "-"): headers[name] for name in headers})


def streams(*texts: str) -> Callable[[Received], Reply]:
    return lambda received: as_stream(chat_stream(received.json, *(texts or TEXTS)))


@contextlib.contextmanager
def asked(proxy: Proxy, group_id: str, body: bytes = BODY) -> Iterator[http.client.HTTPResponse]:
    """A reply whose body is still to be read, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("POST", f"/group/{group_id}/v1/chat/completions", body, JSON)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def ask(proxy: Proxy, group_id: str, body: bytes = BODY) -> bytes:
    with asked(proxy, group_id, body) as reply:
        assert reply.status == 200
        return reply.read()


def read_events(reply: http.client.HTTPResponse, count: int) -> bytes:
    """The next events, and no byte behind them."""
    found = b""
    while found.count(b"\n\n") < count:
        found += reply.read(1)
    return found


@pytest.fixture
def client(live_proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    url = f"{live_proxy.url}/group/{request.node.name}/v1"
    with openai.OpenAI(base_url=url, api_key="harness-key", max_retries=0) as made:
        yield made


# --- what the harness gets, and the record


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


# --- transport


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


# --- who leaves early, and what breaks


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


# --- with a proxy of their own


@pytest.fixture
def own_backend() -> Iterator[Backend]:
    with running_backend(server_info={"reasoning_parser": "qwen3"}) as backend:
        yield backend


def test_a_harness_that_has_read_done_finds_its_exchange_in_the_log_even_of_a_killed_proxy(
    own_backend: Backend, log_directory: Path
) -> None:
    killed = threading.Event()

    def never_ending(received: Received) -> Iterator[bytes]:
        yield from chat_stream(received.json, *TEXTS)
        assert killed.wait(20)

    options = {"streaming": "live", "on_log_error": "pass"}
    with running_mitmdump(own_backend.url, log_directory, **options) as proxy:
        own_backend.script = streams()
        with full_disk(proxy):
            assert ask(proxy, "unrecorded") == expected()
        own_backend.script = lambda received: as_stream(never_ending(received))
        with asked(proxy, "killed") as reply:
            assert read_events(reply, len(TEXTS) + 3) == expected()
            proxy.stop(signal.SIGKILL)
            killed.set()
        with open_log(*log_paths([log_directory])) as log:
            ((_, exchange),) = log.exchanges()
    assert (exchange.outcome, exchange.group_id) == ("complete", "killed")
    assert exchange.reply == b"".join(chat_stream(own_backend.received[1].json, *TEXTS))


def test_a_stream_that_cannot_be_recorded_ends_as_an_error(own_backend: Backend, log_directory: Path) -> None:
    with running_mitmdump(own_backend.url, log_directory, streaming="live") as proxy:
        own_backend.script = streams()
        assert ask(proxy, "g") == expected()
        with full_disk(proxy):
            *events, error, done, end = ask(proxy, "g").split(b"\n\n")
            with pytest.raises(openai.APIError, match="could not be recorded"):
                read_by_openai(proxy)
            own_backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS)[:-1])
            with pytest.raises(http.client.IncompleteRead):
                ask(proxy, "g")
        own_backend.script = streams()
        assert ask(proxy, "g") == expected()
        assert len(proxy.exchanges()) == 2
        assert proxy.health()["capture"]["write_errors"] == 3
    assert b"\n\n".join([*events, done, end]) == expected()
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "capture_failed"


def read_by_openai(proxy: Proxy) -> None:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client:
        for _ in client.chat.completions.create(model="m", messages=QUESTION, stream=True):
            pass


SLOW = """
import asyncio
from turnstile.addon.capture import live_replies

real, recorded = live_replies.record, asyncio.Event()

async def record(session, held, *others):
    if held.route.group_id.startswith("slow"):
        await recorded.wait()
    problem = await real(session, held, *others)
    recorded.set()
    return problem

live_replies.record = record
"""


def test_while_a_stream_waits_for_its_record_the_others_go_on(own_backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    own_backend.script = streams()
    arguments = ("-s", str(tmp_path / "slow.py"))
    with running_mitmdump(own_backend.url, tmp_path / "log", *arguments, streaming="live") as proxy:
        with asked(proxy, "slow") as slow:
            assert read_events(slow, len(TEXTS) + 2) == expected().removesuffix(DONE)
            with asked(proxy, "slow-and-left") as left:
                assert read_events(left, len(TEXTS) + 2) == expected().removesuffix(DONE)
            assert ask(proxy, "fast") == expected()
            assert slow.read() == DONE
        found = proxy.exchanges()
    assert sorted((exchange.group_id, exchange.outcome, exchange.delivered) for exchange in found) == [
        ("fast", "complete", True),
        ("slow", "complete", True),
        ("slow-and-left", "complete", False),
    ]


def test_auto_streams_live_until_a_stream_was_not_whole(own_backend: Backend, log_directory: Path) -> None:
    with running_mitmdump(own_backend.url, log_directory, streaming="auto") as proxy:
        own_backend.script = streams()
        assert ask(proxy, "g") == expected()
        own_backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS, stops=True))
        ask(proxy, "g")
        own_backend.script = lambda received: Reply(chat_reply(received.json))
        for _ in range(2):
            assert ask(proxy, "g").endswith(DONE)
        health = proxy.health()
        found = proxy.exchanges()
        proxy.stop()
    assert [received.json["stream"] for received in own_backend.received] == [True, True, False, False]
    assert [exchange.missing for exchange in found] == [(), ("logprobs",), (), ()]
    assert health["capture"]["missing"] == {"logprobs": 1}
    assert "streams are buffered: a live one lacked logprobs" in health["problems"]
    assert len([line for line in proxy.lines if "streams are buffered" in line]) == 1
    assert len([line for line in proxy.lines if "live streams lack logprobs" in line]) == 1


FAULTY = """
from turnstile.addon.backends.live import LiveRestorer
from turnstile.addon.backends.sse import EventSplitter
from turnstile.addon.capture import live_replies
from turnstile.addon.capture.live_stream import LiveStream

def faulty(owner, name):
    real = getattr(owner, name)

    def function(*given, **named):
        if f"fault in {owner.__name__}.{name}" in repr(given):
            raise RuntimeError("Prompt and Key")
        return real(*given, **named)

    setattr(owner, name, function)

faulty(EventSplitter, "feed")
faulty(LiveRestorer, "feed")
faulty(LiveRestorer, "_for_harness")
faulty(LiveStream, "_restored")
"""


def test_a_fault_of_our_own_loses_no_byte_of_a_stream(own_backend: Backend, tmp_path: Path) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY)
    # what fails, and how many events pass as they came from there on
    places = {
        "EventSplitter.feed": None,
        "LiveRestorer.feed": None,
        "LiveStream._restored": None,
        "LiveRestorer._for_harness": 1,
    }

    def texts(place: str) -> tuple[str, ...]:
        return ("before", f"fault in {place}", "after")

    def cut_before_the_fault(received: Received) -> list[bytes]:
        """Pieces: the event with the fault begins in the one before."""
        place = received.json["messages"][0]["content"]
        whole = b"".join(chat_stream(received.json, *texts(place)))
        at = whole.index(b"fault")
        return [whole[:at], whole[at:-40], whole[-40:]]

    own_backend.script = lambda received: as_stream(cut_before_the_fault(received))
    with running_mitmdump(own_backend.url, tmp_path / "log", "-s", str(script), streaming="live") as proxy:
        for place, count in places.items():
            body = json.dumps({"messages": [{"content": place}], "stream": True}).encode()
            got = ask(proxy, place, body)
            (*_, received), exchange = own_backend.received, proxy.exchange(place)
            as_it_came = chat_stream(received.json, *texts(place))
            restored = chat_stream({}, *texts(place))
            untouched = (
                as_it_came[2:] if count is None else [*as_it_came[2 : 2 + count], *restored[2 + count :]]
            )
            assert got == b"".join(restored[:2] + untouched)
            assert exchange.reply == b"".join(as_it_came)
            assert exchange.error == "Turnstile failed while handing on a stream: RuntimeError"
        assert proxy.health()["capture"]["own_errors"] == len(places)
        proxy.stop()
    assert len([line for line in proxy.lines if "OWN ERROR" in line]) == 1
    assert not any("Prompt and Key" in line or "crashed" in line for line in proxy.lines)


NOT_WAITING = """
from mitmproxy.proxy.layers.http import HttpStream
from turnstile.addon.capture import addon as made, http_stream

# what Turnstile puts in the method's place is never called
http_stream._hand_on_and_wait = http_stream._hand_on
addons = [made()]
"""


def test_a_done_that_mitmproxy_hands_on_before_the_record_is_said_and_counted(
    own_backend: Backend, tmp_path: Path
) -> None:
    script = tmp_path / "not_waiting.py"
    script.write_text(NOT_WAITING)
    own_backend.script = streams()
    with running_mitmdump(own_backend.url, tmp_path / "log", script=script, streaming="live") as proxy:
        for _ in range(2):
            assert ask(proxy, "g") == expected()
        assert proxy.health()["capture"]["own_errors"] == 2
        errors = [exchange.error for exchange in proxy.exchanges()]
        proxy.stop()
    assert errors == ["Turnstile failed while handing on a stream: LeftUnrecordedError"] * 2
    assert len([line for line in proxy.lines if "OWN ERROR while handing on a stream: LeftUnr" in line]) == 1


UNRECORDABLE = """
from turnstile.addon.capture import live_replies
from turnstile.addon.capture.live_stream import LiveStream

def missing(session, held, stream):
    raise RuntimeError("Prompt and Key")

live_replies._complete = missing
"""


def test_an_exchange_whose_record_cannot_be_made_has_a_bare_one(own_backend: Backend, tmp_path: Path) -> None:
    script = tmp_path / "unrecordable.py"
    script.write_text(UNRECORDABLE)
    own_backend.script = streams()
    with running_mitmdump(own_backend.url, tmp_path / "log", "-s", str(script), streaming="live") as proxy:
        assert ask(proxy, "g") == expected()
        exchange, counts = proxy.exchange("g"), proxy.health()["capture"]
    assert (exchange.outcome, exchange.delivered, exchange.status) == ("complete", True, 200)
    assert exchange.reply == b"".join(chat_stream(own_backend.received[0].json, *TEXTS))
    assert exchange.error == "Turnstile failed while making a record: RuntimeError"
    assert (counts["own_errors"], counts["outcomes"], counts["in_flight"]) == (1, {"complete": 1}, 0)


LINGERING = """
import asyncio
import urllib.request

class Lingering:
    async def done(self):
        print("stopping", flush=True)
        await asyncio.to_thread(urllib.request.urlopen, "BACKEND/stopping")

addons = [Lingering()]
"""


def test_no_stream_that_the_log_calls_interrupted_gets_its_end_or_what_was_added(
    own_backend: Backend, tmp_path: Path
) -> None:
    """The backend goes on behind the end of the log, while mitmproxy is still there."""
    texts = [f" {number}" for number in range(8)]
    under_way, go, over = threading.Semaphore(0), threading.Event(), threading.Event()

    def held_up(received: Received) -> Iterator[bytes]:
        events = chat_stream(received.json, *texts)
        before = int(received.json["messages"][0]["content"])
        yield from events[:before]
        assert go.wait(20)
        yield from events[before:]

    def answer(received: Received) -> Reply:
        if received.path == "/stopping":
            go.set()
            assert over.wait(20)
            return Reply(b"{}")
        return as_stream(held_up(received))

    def one(proxy: Proxy, before: int) -> bytes:
        body = json.dumps({"model": "m", "messages": [{"content": str(before)}], "stream": True}).encode()
        with asked(proxy, f"stopped-{before}", body) as reply:
            first = read_events(reply, min(before, len(texts) + 2))
            under_way.release()
            with pytest.raises(http.client.IncompleteRead) as broken:
                reply.read()
        return first + broken.value.partial

    own_backend.script = answer
    script = tmp_path / "lingering.py"
    script.write_text(LINGERING.replace("BACKEND", own_backend.url))
    counts = range(1, len(chat_stream(ASKED_FOR, *texts)))  # all but [DONE]
    arguments = ("-s", str(script))
    with (
        running_mitmdump(own_backend.url, tmp_path / "log", *arguments, streaming="live") as proxy,
        ThreadPoolExecutor(len(counts)) as pool,
    ):
        asking = [pool.submit(one, proxy, before) for before in counts]
        for _ in counts:
            assert under_way.acquire(timeout=20)
        proxy.process.send_signal(signal.SIGTERM)
        try:
            got = [each.result(20) for each in asking]
        finally:
            over.set()
        assert proxy.stop() == 0
        found = proxy.logged()
    assert [exchange.outcome for exchange in found] == ["interrupted"] * len(counts)
    for body, before in zip(got, counts, strict=True):
        assert body == b"".join(chat_stream({"model": "m"}, *texts)[: min(before, len(texts) + 2)])
    assert not any("Traceback" in line for line in proxy.lines)
