from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import FACTS, answered
from turnstile.addon.tracelog.frames import RecordType, pack_record
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.compiler import following, pipeline
from turnstile.compiler.following import FollowedLogs
from turnstile.compiler.replay import Replay
from turnstile.compiler.standing import Standing, standings_of

Told = list[tuple[str, int | None, str | None]]  # exchange, turn, split


def short(standings: list[Standing]) -> Told:
    return [(each.exchange_id[-1], each.turn, each.split) for each in standings]


class Followed:
    """A log that is written, and what is told of it meanwhile."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writer = LogWriter(directory, program="test", rotate_bytes=900)
        self.writer.set_backend(FACTS)
        self.logs = FollowedLogs(directory, self.writer.log_id)

    def told(self, *records: Any, group_id: str = "g", before: float = inf) -> Told:
        """Once these are written, too."""
        for record in records:
            self.writer.write([record])
        self.logs.read_on(Path(self.writer.position.path), self.writer.position.offset)
        return short(self.logs.merged(group_id, before))

    def compiled(self) -> Told:
        with Replay([self.directory]) as replay:
            return short([*standings_of(replay).values()])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path)
    yield made
    made.logs.close()
    made.writer.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The exchanges that are read into turns, in their order."""
    ids: list[str] = []
    turns_of = pipeline.turns_of

    def noting(exchange: Any, *arguments: Any) -> Any:
        ids.append(exchange.exchange_id[-1])
        return turns_of(exchange, *arguments)

    monkeypatch.setattr(pipeline, "turns_of", noting)
    return ids


FIRST, SECOND = answered(1, [1, 2], [3], rollout_id="r"), answered(2, [1, 2, 3, 4], [5], rollout_id="r")
SPLIT = answered(3, [1, 2, 7], [8], rollout_id="r")


def test_each_exchange_is_told_of_once_and_read_once(log: Followed, read: list[str]) -> None:
    assert log.told() == []
    assert log.told(FIRST) == [("1", 1, None)]
    assert log.told(answered(9, [1], [2], group_id="other")) == []
    assert log.told(SECOND, SPLIT) == [("2", 2, None), ("3", 3, "new_prompt")]
    assert log.told() == []
    assert read == ["1", "2", "3"]


def test_what_began_behind_an_exchange_under_way_waits_for_it(log: Followed, read: list[str]) -> None:
    branch = answered(3, [1, 2, 3, 9], [8], rollout_id="r")
    assert log.told(FIRST, branch, before=SECOND.started_at) == [("1", 1, None)]
    assert log.told(SECOND) == [("2", 2, None), ("3", 3, "history_rewritten")]
    assert read == ["1", "2", "3"]


def test_a_record_that_comes_late_has_its_group_begun_anew(log: Followed) -> None:
    assert log.told(SECOND, SPLIT) == [("2", 1, None), ("3", 2, "new_prompt")]
    told = [("1", 1, None), ("2", 2, None), ("3", 3, "new_prompt")]
    assert log.told(FIRST) == told
    assert log.compiled() == told


def test_parts_are_read_one_after_the_other(log: Followed) -> None:
    turns = [answered(at, [1, *range(at)], [at], rollout_id="r") for at in range(1, 9)]
    assert [told for turn in turns for told in log.told(turn)] == log.compiled()
    assert len(list(log.directory.glob("*.tslog"))) > 2


def test_of_a_group_that_was_let_go_nothing_more_is_told(
    log: Followed, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    monkeypatch.setattr(following, "KEPT", 1)
    assert log.told(FIRST) == [("1", 1, None)]
    assert log.told(answered(8, [1], [2], group_id="h"), group_id="h") == [("8", 1, None)]
    assert log.told(SECOND) == []
    assert read == ["1", "8"]


def test_of_a_record_that_cannot_be_read_nothing_is_told(log: Followed) -> None:
    log.told(FIRST)
    path = Path(log.writer.position.path)
    envelope = {"id": 2, "group_id": "g", "started_at": 1e9, "duration_s": 1.0, "path": "/", "sizes": [1, 1]}
    with path.open("ab") as file:
        file.write(pack_record(RecordType.EXCHANGE, envelope, b""))
    log.logs.read_on(path, path.stat().st_size)
    assert log.logs.merged("g", inf) == []
