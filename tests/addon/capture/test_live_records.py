"""When the record of a live stream is made, and which streams are live, with proxies of their own."""

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.backend import Backend, Received, Reply, chat_reply, chat_stream
from tests.support.live_replies import (
    DONE,
    QUESTION,
    TEXTS,
    as_stream,
    ask,
    asked,
    expected,
    read_events,
    streams,
)
from tests.support.mitmdump import Proxy, full_disk, running_mitmdump
from turnstile.addon.tracelog.reader import log_paths, open_log


def test_a_harness_that_has_read_done_finds_its_exchange_in_the_log_even_of_a_killed_proxy(
    live_backend: Backend, log_directory: Path
) -> None:
    killed = threading.Event()

    def never_ending(received: Received) -> Iterator[bytes]:
        yield from chat_stream(received.json, *TEXTS)
        assert killed.wait(20)

    options = {"streaming": "live", "on_log_error": "pass"}
    with running_mitmdump(live_backend.url, log_directory, **options) as proxy:
        live_backend.script = streams()
        with full_disk(proxy):
            assert ask(proxy, "unrecorded") == expected()
        live_backend.script = lambda received: as_stream(never_ending(received))
        with asked(proxy, "killed") as reply:
            assert read_events(reply, len(TEXTS) + 3) == expected()
            proxy.stop(signal.SIGKILL)
            killed.set()
        with open_log(*log_paths([log_directory])) as log:
            ((_, exchange),) = log.exchanges()
    assert (exchange.outcome, exchange.group_id) == ("complete", "killed")
    assert exchange.reply == b"".join(chat_stream(live_backend.received[1].json, *TEXTS))


def test_a_stream_that_cannot_be_recorded_ends_as_an_error(
    live_backend: Backend, log_directory: Path
) -> None:
    with running_mitmdump(live_backend.url, log_directory, streaming="live") as proxy:
        live_backend.script = streams()
        assert ask(proxy, "g") == expected()
        with full_disk(proxy):
            *events, error, done, end = ask(proxy, "g").split(b"\n\n")
            with pytest.raises(openai.APIError, match="could not be recorded"):
                read_by_openai(proxy)
            live_backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS)[:-1])
            with pytest.raises(http.client.IncompleteRead):
                ask(proxy, "g")
        live_backend.script = streams()
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


def test_while_a_stream_waits_for_its_record_the_others_go_on(live_backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    live_backend.script = streams()
    arguments = ("-s", str(tmp_path / "slow.py"))
    with running_mitmdump(live_backend.url, tmp_path / "log", *arguments, streaming="live") as proxy:
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


def test_auto_streams_live_until_a_stream_was_not_whole(live_backend: Backend, log_directory: Path) -> None:
    with running_mitmdump(live_backend.url, log_directory, streaming="auto") as proxy:
        live_backend.script = streams()
        assert ask(proxy, "g") == expected()
        live_backend.script = lambda received: as_stream(chat_stream(received.json, *TEXTS, stops=True))
        ask(proxy, "g")
        live_backend.script = lambda received: Reply(chat_reply(received.json))
        for _ in range(2):
            assert ask(proxy, "g").endswith(DONE)
        health = proxy.health()
        found = proxy.exchanges()
        proxy.stop()
    assert [received.json["stream"] for received in live_backend.received] == [True, True, False, False]
    assert [exchange.missing for exchange in found] == [(), ("logprobs",), (), ()]
    assert health["capture"]["missing"] == {"logprobs": 1}
    assert "streams are buffered: a live one lacked logprobs" in health["problems"]
    assert len([line for line in proxy.lines if "streams are buffered" in line]) == 1
    assert len([line for line in proxy.lines if "live streams lack logprobs" in line]) == 1
