import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from turnstile.addon.capture import weight_reader
from turnstile.addon.capture.weight_reader import WeightReader
from turnstile.addon.tracelog.records import WeightReading


@pytest.fixture
def own_backend() -> Iterator[Backend]:
    with running_backend() as backend:
        yield backend


def versions(readings: list[WeightReading]) -> list[str | None]:
    return [reading.weight_version for reading in readings]


async def test_a_reading_follows_a_stream_with_the_harnesss_own_key(own_backend: Backend) -> None:
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    reader.stream_ended("Bearer k")
    await reader.settled()
    assert versions(readings) == ["step-1"]
    assert readings[0].asked_at <= readings[0].answered_at
    (probe,) = own_backend.probes
    assert (probe.path, probe.headers["authorization"]) == ("/model_info", "Bearer k")


async def test_streams_that_end_together_share_a_reading_begun_after_all_of_them(
    own_backend: Backend,
) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(received: Received) -> Reply:
        asked.set()
        assert go.wait(20)
        return Reply(json.dumps({"weight_version": f"step-{len(own_backend.probes)}"}).encode())

    own_backend.guard = slow
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    reader.stream_ended(None)
    await asyncio.to_thread(asked.wait, 20)
    for _ in range(5):  # these end while the first one's reading is under way
        reader.stream_ended(None)
    go.set()
    await reader.settled()
    assert versions(readings) == ["step-1", "step-2"]
    assert readings[0].answered_at <= readings[1].asked_at


async def test_weights_that_stay_the_same_are_read_seldom_but_for_who_waits(
    own_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    real = asyncio.wait_for

    async def seen(waited: Coroutine[Any, Any, bool], seconds: float) -> bool:
        pauses.append(seconds)
        return await real(waited, 3600)  # only `settled` ends it

    monkeypatch.setattr(weight_reader.asyncio, "wait_for", seen)
    said = iter(["step-1", "step-1", "step-1", "step-2", "step-2"])
    own_backend.guard = lambda received: Reply(json.dumps({"weight_version": next(said)}).encode())
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    for _ in range(5):
        reader.stream_ended(None)
        await reader.settled()
        await asyncio.sleep(0)  # the reader begins its pause
    assert versions(readings) == ["step-1"] * 3 + ["step-2"] * 2
    assert pauses == [0.1, 1.0, 1.0, 0.1, 1.0]
    await reader.settled()  # ends the pause, and the task


async def test_who_waits_while_a_reading_is_under_way_does_not_wait_for_the_pause_behind_it(
    own_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_reader, "PAUSE_S", 3600.0)
    asked, go = threading.Event(), threading.Event()

    def slow(received: Received) -> Reply:
        asked.set()
        assert go.wait(20)
        return Reply(b'{"weight_version": "step-1"}')

    own_backend.guard = slow
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    reader.stream_ended(None)
    await asyncio.to_thread(asked.wait, 20)
    reader.stream_ended(None)
    settled = asyncio.create_task(reader.settled())
    await asyncio.sleep(0)  # it waits
    go.set()
    await asyncio.wait_for(settled, 20)
    assert versions(readings) == ["step-1"] * 2


async def test_where_no_stream_has_ended_nothing_is_waited_for(own_backend: Backend) -> None:
    readings: list[WeightReading] = []
    await WeightReader(own_backend.url, readings.append).settled()
    assert (readings, own_backend.probes) == ([], [])


async def test_an_older_server_is_asked_where_it_has_its_answer(own_backend: Backend) -> None:
    def only_get(received: Received) -> Reply:
        if received.path != "/get_model_info":
            return Reply(b"{}", status=404)
        return Reply(b'{"weight_version": "old"}')

    own_backend.guard = only_get
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    reader.stream_ended(None)
    await reader.settled()
    assert versions(readings) == ["old"]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"no JSON"),
        Reply(b"[]"),
        Reply(b'{"weight_version": 3}'),
        Reply(b"{}"),
        Reply(b"{}", status=500),
    ],
)
async def test_what_the_backend_does_not_say_is_recorded_as_unknown(
    own_backend: Backend, reply: Reply
) -> None:
    own_backend.guard = lambda received: reply
    readings: list[WeightReading] = []
    reader = WeightReader(own_backend.url, readings.append)
    reader.stream_ended(None)
    await reader.settled()
    assert versions(readings) == [None]


async def test_a_backend_that_is_gone_says_nothing() -> None:
    with running_backend() as gone:
        url = gone.url
    readings: list[WeightReading] = []
    reader = WeightReader(url, readings.append)
    reader.stream_ended(None)
    await reader.settled()
    assert versions(readings) == [None]
