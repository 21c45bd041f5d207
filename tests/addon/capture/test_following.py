"""When flows are told what became of their exchanges, with a merger that says what it is asked."""

import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.http import HTTPFlow
from mitmproxy.test import tflow

from tests.support.chat import compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.capture.annotations import annotate
from turnstile.addon.capture.following import Follower
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.compiler.standing import Standing

REPLY = compact(completion())
LONG_S = 30.0


class Merger:
    """Merges nothing: every exchange that it was handed is turn 1."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.is_closed = threading.Event()
        self.told: list[Standing] = []
        self.error: Exception | None = None

    def standings(self, log: Path, size_bytes: int, group_id: str, before: float) -> Sequence[Standing]:
        assert log.stat().st_size >= size_bytes > 0
        self.asked.append((group_id, before))
        if self.error is not None:
            raise self.error
        told, self.told = self.told, []
        return told

    def group_page(
        self, log: Path, size_bytes: int, group_id: str, texts: Mapping[int, str], links: Mapping[str, str]
    ) -> bytes:
        return f"{group_id} {log.stat().st_size - size_bytes} {dict(texts)} {dict(links)}".encode()

    def group_page_of_logs(self, *arguments: Any) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        self.is_closed.set()


class Session:
    """What a follower needs of one."""

    def __init__(self, folder: Path) -> None:
        self.recorder = Recorder(LogWriter(folder, program="test"), "batch")
        self.merger = Merger()
        self.in_flight: dict[str, Any] = {}
        self.changed: list[list[str]] = []
        self.follower = Follower(
            self.merger,
            self.recorder,
            self.in_flight,
            lambda flows: self.changed.append([flow.id for flow in flows]),
        )

    def begun(self, group_id: str, at: float) -> None:
        """An exchange is under way."""
        request = SimpleNamespace(timestamp_start=at)
        held = SimpleNamespace(
            flow=SimpleNamespace(request=request), route=SimpleNamespace(group_id=group_id)
        )
        self.in_flight[f"{group_id}{at}"] = held

    async def recorded(self, *exchanges: Exchange) -> list[HTTPFlow]:
        """Their flows, once nothing is left to be merged."""
        flows = []
        for each in exchanges:
            flow = tflow.tflow(resp=True)
            flow.id = each.exchange_id
            annotate(flow, each, None)
            await self.recorder.record(1, lambda each=each: each)  # type: ignore[misc]
            self.follower.recorded(flow, each)
            flows.append(flow)
        await self.follower.settled(LONG_S)
        return flows


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    made = Session(tmp_path)
    yield made
    made.follower.close()
    made.recorder.close()


def answered(number: int, group_id: str = "g") -> Exchange:
    return exchange(number, group_id=group_id, reply=REPLY)


def standing(number: int, turn: int) -> Standing:
    return Standing(answered(number).exchange_id, turn)


async def test_flows_tell_what_became_of_them_and_the_list_is_told(session: Session) -> None:
    session.merger.told = [standing(1, 1), standing(2, 2)]
    flows = await session.recorded(answered(1), answered(2))
    assert [flow.comment for flow in flows] == [
        "g  turn 1  2+2 tokens  stop",
        "g  turn 2  2+2 tokens  stop",
    ]
    assert session.changed == [[flow.id for flow in flows]]


async def test_a_group_is_merged_once_for_all_that_came_meanwhile(session: Session) -> None:
    await session.recorded(*(answered(number) for number in range(5)), answered(9, "other"))
    assert session.merger.asked == [("g", inf), ("other", inf)]


async def test_a_group_is_merged_up_to_its_first_exchange_under_way(session: Session) -> None:
    session.begun("g", 1007.0)
    session.begun("g", 1003.0)
    session.begun("other", 1000.0)
    await session.recorded(answered(4))
    assert session.merger.asked == [("g", 1003.0)]


async def test_who_waited_is_told_when_the_others_have_ended(session: Session) -> None:
    session.begun("g", 1001.0)
    (second,) = await session.recorded(answered(2))
    assert second.comment == "g  2+2 tokens  stop"
    session.in_flight.clear()
    session.merger.told = [standing(1, 1), standing(2, 2)]
    (first,) = await session.recorded(answered(1))
    assert (first.metadata["turnstile_turn"], second.metadata["turnstile_turn"]) == (1, 2)


async def test_what_is_not_told_of_in_time_is_waited_for_no_longer(session: Session) -> None:
    (flow,) = await session.recorded(answered(1))
    session.merger.told = [standing(1, 1)]
    await session.recorded(answered(2))
    assert "turnstile_turn" not in flow.metadata


async def test_an_error_is_said_once_and_the_next_exchange_is_merged(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    session.merger.error = ValueError("a piece of a prompt")
    await session.recorded(answered(1))
    await session.recorded(answered(2))
    session.merger.error, session.merger.told = None, [standing(3, 3)]
    (flow,) = await session.recorded(answered(3))
    assert flow.metadata["turnstile_turn"] == 3
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["turnstile: flows do not tell of turns and splits (said once): ValueError"]


async def test_a_page_is_made_of_all_that_is_recorded(session: Session) -> None:
    await session.recorder.record(1, lambda: answered(1))
    page = await session.follower.group_page("g", {5: "x"}, {"e": "/there"})
    assert page == b"g 0 {5: 'x'} {'e': '/there'}"


async def test_once_closed_nothing_is_told_and_the_merger_is_let_go(session: Session) -> None:
    session.follower.close()
    session.merger.told = [standing(1, 1)]
    (flow,) = await session.recorded(answered(1))
    assert (flow.comment, session.merger.asked) == ("g  2+2 tokens  stop", [])
    assert session.merger.is_closed.wait(LONG_S)
