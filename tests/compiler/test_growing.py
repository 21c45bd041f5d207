from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import FACTS, answered, stream_events, streamed, weight_reading
from tests.support.routing import experts, facts, routed
from turnstile.addon.tracelog.frames import RecordType, pack_record
from turnstile.addon.tracelog.records import Group, Reward
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.compiler import growing, pipeline
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.export.jsonl import json_line
from turnstile.compiler.export.records import as_record
from turnstile.compiler.growing import GrowingLogs
from turnstile.compiler.pipeline import Options


class Growing:
    """A log that is written, and the logs as they are read meanwhile."""

    def __init__(self, directory: Path, rotate_bytes: int = 1 << 30) -> None:
        self.directory = directory
        self.writer = LogWriter(directory, program="test", rotate_bytes=rotate_bytes)
        self.writer.set_backend(FACTS)
        self.logs = GrowingLogs(directory, self.writer.log_id, Options())

    def write(self, *records: Any) -> None:
        for record in records:
            self.writer.write([record])

    def lines(self, group_id: str = "g") -> list[bytes]:
        """What is compiled by now; it is what a compile of the directory gives."""
        position = self.writer.position
        self.logs.read_on(Path(position.path), position.offset)
        found = self.logs.compiled(group_id)
        whole = compile_logs(self.directory, groups=[group_id])
        lines = [json_line(as_record(sequence)) for sequence in found]
        assert lines == [json_line(as_record(sequence)) for sequence in whole]
        assert [each.as_record() for each in found.findings] == [each.as_record() for each in whole.findings]
        return lines


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Growing]:
    made = Growing(tmp_path)
    with made.logs:
        yield made
    made.writer.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the exchanges that are read into turns, in their order."""
    ids: list[str] = []
    turns_of = pipeline.turns_of

    def noting(exchange: Any, *arguments: Any) -> Any:
        ids.append(exchange.exchange_id[-1])
        return turns_of(exchange, *arguments)

    monkeypatch.setattr(pipeline, "turns_of", noting)
    return ids


def test_each_time_there_is_what_has_come_since(log: Growing) -> None:
    assert log.lines() == []
    log.write(answered(1, [1, 2], [3]), answered(2, [9], [8], group_id="other"))
    assert len(log.lines()) == 1
    log.write(answered(3, [1, 2, 3, 4], [5]), answered(4, [1, 2], [6]))
    assert len(log.lines()) == 2
    assert len(log.lines("other")) == 1


def test_what_is_compiled_is_not_read_again(log: Growing, read: list[str]) -> None:
    log.write(answered(1, [1, 2], [3]), answered(2, [1, 2, 3, 4], [5]))
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    log.logs.compiled("g")
    assert read == ["1", "2"]
    log.write(answered(3, [1, 2, 3, 4, 5, 6], [7]))
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    (found,) = log.logs.compiled("g")
    assert found.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    log.logs.compiled("g")
    assert read == ["1", "2", "3"]


def test_routed_experts_are_joined_as_turns_come(log: Growing) -> None:
    log.writer.set_backend(facts().as_record())
    first = routed(1, [1, 2], [3], experts(1, 2))
    second = routed(2, [1, 2, 3, 4], [5, 6], experts(2, 3, 4, 5), start=1)
    other_way = routed(3, [1, 2, 3, 4], [7], experts(1, 9, 3, 4))
    for each in (first, second, other_way):
        log.write(each)
        (line, *_) = log.lines()
        assert b'"routed_experts_shape":[' in line


def test_a_record_that_comes_late_finds_its_place(log: Growing) -> None:
    log.write(answered(2, [1, 2, 3, 4], [5], started_at=2.0))
    assert len(log.lines()) == 1
    log.write(answered(1, [1, 2], [3], started_at=1.0))
    assert len(log.lines()) == 1
    log.write(answered(3, [1, 2, 3, 4, 5], [6], started_at=3.0))
    assert len(log.lines()) == 1


def test_parts_are_read_one_after_the_other(tmp_path: Path) -> None:
    log = Growing(tmp_path, rotate_bytes=900)
    with log.logs:
        for number in range(8):
            log.write(answered(number, [1, *range(number)], [number]))
            log.lines()
    log.writer.close()
    assert len(list(tmp_path.glob("*.tslog"))) > 2


def test_rewards_groups_and_weight_readings_count_as_they_come(log: Growing) -> None:
    stream = streamed(1, stream_events([1, 2], [3]), started_at=10.0, duration_s=1.0)
    log.write(weight_reading("7", 9.0), stream, weight_reading("7", 12.0))
    (line,) = log.lines()
    assert b'"weight_version_read"' in line
    reward = Reward(group_id="g", rollout_id=None, sequence_id=None, reward=0.5, at=13.0)
    log.write(reward, Group(group_id="g", max_trajectory_tokens=9, at=13.0, metadata={"task": "x"}))
    (line,) = log.lines()
    assert b'"reward":0.5' in line
    assert b'"group":{"task":"x"}' in line


def test_what_lies_behind_the_end_is_not_read_yet(log: Growing) -> None:
    log.write(answered(1, [1, 2], [3]))
    before = log.writer.position
    log.write(answered(2, [1, 2, 3], [4]))
    log.logs.read_on(Path(before.path), before.offset)
    assert len(log.logs.compiled("g")[0].tokens) == 3
    assert len(log.lines()) == 1


def test_logs_of_other_writers_are_left_alone(log: Growing, tmp_path: Path) -> None:
    other = Growing(tmp_path)
    other.write(answered(1, [1, 2], [3]))
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    assert len(log.logs.compiled("g")) == 0
    other.writer.close()


def test_the_groups_asked_for_last_are_kept(
    log: Growing, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    monkeypatch.setattr(growing, "KEPT", 1)
    log.write(answered(1, [1, 2], [3]), answered(2, [1, 2], [3], group_id="h"))
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    for group_id in ("g", "h", "g", "g"):
        assert len(log.logs.compiled(group_id)) == 1
    assert read == ["1", "2", "1"]


def test_a_reading_that_comes_after_a_look_counts_for_what_ended_before_it(
    log: Growing, read: list[str]
) -> None:
    log.write(weight_reading("7", 9.0))
    log.lines()
    log.write(streamed(1, stream_events([1, 2], [3]), started_at=10.0, duration_s=1.0))
    (line,) = log.lines()
    assert b'"weight_version_read"' not in line
    log.write(weight_reading("7", 12.0))
    (line,) = log.lines()
    assert b'"weight_version_read":[[0,"7"]]' in line
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    read.clear()
    log.write(weight_reading("8", 13.0))
    position = log.writer.position
    log.logs.read_on(Path(position.path), position.offset)
    assert len(log.logs.compiled("g")) == 1
    assert read == []  # it lay between two readings already


def test_a_record_that_is_none_of_ours_is_a_finding(log: Growing) -> None:
    log.write(answered(1, [1, 2], [3]))
    path = Path(log.writer.position.path)
    envelope = {"id": 2, "group_id": "g", "started_at": 1e9, "duration_s": 1.0, "path": "/", "sizes": [1, 1]}
    with path.open("ab") as file:
        file.write(pack_record(RecordType.BACKEND, {}, b"\xc1"))  # which msgpack never uses
        file.write(pack_record(RecordType.EXCHANGE, envelope, b""))
    log.logs.read_on(path, path.stat().st_size)
    found = log.logs.compiled("g")
    assert (len(found), found.findings) == (1, compile_logs(log.directory).findings)
    assert [(finding.kind, finding.message) for finding in found.findings] == [
        ("log_corrupt", "malformed record (ValueError)")
    ]
