"""Live streams over which Turnstile fails or is ended, with proxies of their own."""

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.backend import Backend, Received, Reply, chat_stream
from tests.support.live_replies import ASKED_FOR, TEXTS, as_stream, ask, asked, expected, read_events, streams
from tests.support.mitmdump import Proxy, running_mitmdump

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


def test_a_fault_of_our_own_loses_no_byte_of_a_stream(live_backend: Backend, tmp_path: Path) -> None:
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

    live_backend.script = lambda received: as_stream(cut_before_the_fault(received))
    with running_mitmdump(live_backend.url, tmp_path / "log", "-s", str(script), streaming="live") as proxy:
        for place, count in places.items():
            body = json.dumps({"messages": [{"content": place}], "stream": True}).encode()
            got = ask(proxy, place, body)
            (*_, received), exchange = live_backend.received, proxy.exchange(place)
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
    live_backend: Backend, tmp_path: Path
) -> None:
    script = tmp_path / "not_waiting.py"
    script.write_text(NOT_WAITING)
    live_backend.script = streams()
    with running_mitmdump(live_backend.url, tmp_path / "log", script=script, streaming="live") as proxy:
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


def test_an_exchange_whose_record_cannot_be_made_has_a_bare_one(
    live_backend: Backend, tmp_path: Path
) -> None:
    script = tmp_path / "unrecordable.py"
    script.write_text(UNRECORDABLE)
    live_backend.script = streams()
    with running_mitmdump(live_backend.url, tmp_path / "log", "-s", str(script), streaming="live") as proxy:
        assert ask(proxy, "g") == expected()
        exchange, counts = proxy.exchange("g"), proxy.health()["capture"]
    assert (exchange.outcome, exchange.delivered, exchange.status) == ("complete", True, 200)
    assert exchange.reply == b"".join(chat_stream(live_backend.received[0].json, *TEXTS))
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
    live_backend: Backend, tmp_path: Path
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

    live_backend.script = answer
    script = tmp_path / "lingering.py"
    script.write_text(LINGERING.replace("BACKEND", live_backend.url))
    counts = range(1, len(chat_stream(ASKED_FOR, *texts)))  # all but [DONE]
    arguments = ("-s", str(script))
    with (
        running_mitmdump(live_backend.url, tmp_path / "log", *arguments, streaming="live") as proxy,
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
