import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from turnstile.addon.capture.options import Durability
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Entry, Exchange, WeightReading
from turnstile.addon.tracelog.writer import LogWriter


class TestWriter(LogWriter):
    """The real writer, which a test can hold up and make fail."""

    __test__ = False

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, program="test")
        self.go = threading.Event()
        self.go.set()
        self.problem: Exception | None = None
        self.refused_ids: set[str] = set()
        self.batches: list[list[str]] = []

    def write(self, records: Sequence[Entry]) -> None:
        self.go.wait()
        ids = [record.exchange_id for record in records if isinstance(record, Exchange)]
        if self.problem is not None:
            raise self.problem
        if self.refused_ids & set(ids):
            raise ValueError("a record that cannot be packed")
        self.batches.append(ids)
        super().write(records)


def exchange(recorder: Recorder, body: bytes = b"{}") -> Exchange:
    return Exchange(
        exchange_id=recorder.next_exchange_id(),
        group_id="g",
        rollout_id=None,
        started_at=1.0,
        duration_s=0.5,
        method="POST",
        path="/v1/chat/completions",
        outcome="complete",
        status=200,
        request_headers=(),
        request=body,
        splices=(),
        reply_headers=(),
        reply=b"{}",
    )


async def keep(recorder: Recorder, made: Exchange) -> None:
    await recorder.record(len(made.request) + len(made.reply), lambda: made)


def logged(directory: Path) -> list[str]:
    with open_log(*log_paths([directory])) as log:
        return [summary.exchange_id for summary in log.summaries()]


def size_bytes(path: str) -> int:
    return Path(path).stat().st_size


@pytest.fixture
def writer(tmp_path: Path) -> TestWriter:
    return TestWriter(tmp_path)


@pytest.mark.parametrize("durability", ["record", "fsync"])
async def test_a_record_is_readable_when_the_hook_may_go_on(
    writer: TestWriter, tmp_path: Path, durability: Durability
) -> None:
    recorder = Recorder(writer, durability)
    records = [exchange(recorder) for _ in range(3)]
    for at, record in enumerate(records, 1):
        await keep(recorder, record)
        assert logged(tmp_path) == [record.exchange_id for record in records[:at]]
        assert recorder.position.offset == size_bytes(recorder.position.path)
    recorder.close()


async def test_what_waits_together_is_written_together_and_in_order(writer: TestWriter) -> None:
    recorder = Recorder(writer, "record")
    records = [exchange(recorder) for _ in range(20)]
    writer.go.clear()
    waiting = [asyncio.ensure_future(keep(recorder, record)) for record in records]
    await asyncio.sleep(0)
    writer.go.set()
    await asyncio.gather(*waiting)
    recorder.close()
    assert [ident for batch in writer.batches for ident in batch] == [
        record.exchange_id for record in records
    ]
    assert len(writer.batches) <= 3


async def test_a_full_queue_makes_hooks_wait_and_drops_nothing(writer: TestWriter, tmp_path: Path) -> None:
    recorder = Recorder(writer, "batch", queue_records=2)
    records = [exchange(recorder) for _ in range(5)]
    writer.go.clear()
    waiting = [asyncio.ensure_future(keep(recorder, record)) for record in records]
    await asyncio.sleep(0)
    assert [one.done() for one in waiting] == [True, True, False, False, False]
    writer.go.set()
    await asyncio.gather(*waiting)
    recorder.close()
    assert logged(tmp_path) == [record.exchange_id for record in records]


async def test_the_queue_is_bounded_in_bytes_and_a_larger_record_goes_through_alone(
    writer: TestWriter, tmp_path: Path
) -> None:
    recorder = Recorder(writer, "batch", queue_bytes=100)
    records = [exchange(recorder, b"x" * size) for size in (1000, 50, 40, 1000)]
    writer.go.clear()
    waiting = [asyncio.ensure_future(keep(recorder, record)) for record in records]
    await asyncio.sleep(0)
    assert [one.done() for one in waiting] == [True, False, False, False]
    writer.go.set()
    await asyncio.gather(*waiting)
    recorder.close()
    assert logged(tmp_path) == [record.exchange_id for record in records]


async def test_batch_does_not_wait_for_the_writer_and_flush_does(writer: TestWriter, tmp_path: Path) -> None:
    recorder = Recorder(writer, "batch")
    record = exchange(recorder)
    writer.go.clear()
    await keep(recorder, record)
    assert logged(tmp_path) == []
    writer.go.set()
    await recorder.flush()
    assert logged(tmp_path) == [record.exchange_id]
    recorder.close()


async def test_a_failed_write_is_told_to_its_hook_and_ends_with_the_next_success(
    writer: TestWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(writer, "record")
    writer.problem = LogWriteError("disk full")
    for _ in range(2):
        with pytest.raises(LogWriteError, match="disk full"):
            await recorder.record(0, partial(exchange, recorder))
    assert recorder.failing
    assert [record.message for record in caplog.records] == [
        "turnstile: CANNOT RECORD (said once until a write succeeds): disk full"
    ]
    writer.problem = None
    kept = exchange(recorder)
    await keep(recorder, kept)
    assert (recorder.failing, recorder.write_errors) == (False, 2)
    recorder.close()
    assert logged(tmp_path) == [kept.exchange_id]


async def test_a_weight_reading_is_written_and_counts_for_no_exchange(
    writer: TestWriter, tmp_path: Path
) -> None:
    recorder = Recorder(writer, "record")
    reading = WeightReading(weight_version="7", asked_at=1.0, answered_at=2.0)
    recorder.record_at_once(reading)
    await recorder.flush()
    writer.problem = LogWriteError("disk full")
    recorder.record_at_once(reading)
    await recorder.flush()
    assert (recorder.failing, recorder.write_errors) == (True, 0)
    recorder.close()
    with open_log(*log_paths([tmp_path])) as log:
        assert list(log.weight_readings()) == [reading]


async def test_while_writes_fail_batch_waits_too_so_that_the_harness_is_told(writer: TestWriter) -> None:
    recorder = Recorder(writer, "batch")
    writer.problem = LogWriteError("disk full")
    await recorder.record(0, partial(exchange, recorder))
    await recorder.flush()
    with pytest.raises(LogWriteError, match="disk full"):
        await recorder.record(0, partial(exchange, recorder))
    recorder.close()


async def test_one_bad_record_does_not_take_its_neighbours_along(writer: TestWriter, tmp_path: Path) -> None:
    recorder = Recorder(writer, "record")
    before, bad, after = records = [exchange(recorder) for _ in range(3)]
    writer.refused_ids = {bad.exchange_id}
    writer.go.clear()
    waiting = [asyncio.ensure_future(keep(recorder, record)) for record in records]
    await asyncio.sleep(0)
    writer.go.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    recorder.close()
    assert [type(result) for result in results] == [type(None), LogWriteError, type(None)]
    assert logged(tmp_path) == [before.exchange_id, after.exchange_id]


async def test_a_record_that_cannot_be_made_takes_no_room(writer: TestWriter, tmp_path: Path) -> None:
    recorder = Recorder(writer, "record", queue_records=1)

    def fail() -> Exchange:
        raise RuntimeError("a fault of ours")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            await recorder.record(10, fail)
    kept = exchange(recorder)
    await keep(recorder, kept)
    recorder.close()
    assert logged(tmp_path) == [kept.exchange_id]


async def test_closing_writes_what_is_queued_and_indexes_the_log(writer: TestWriter, tmp_path: Path) -> None:
    recorder = Recorder(writer, "batch")
    records = [exchange(recorder) for _ in range(10)]
    for record in records[:9]:
        await keep(recorder, record)
    recorder.record_at_once(records[9])
    recorder.close()
    assert logged(tmp_path) == [record.exchange_id for record in records]
    assert writer.position.offset < size_bytes(writer.position.path)  # by the index


async def test_the_backend_is_noted_before_the_exchanges_that_follow(
    writer: TestWriter, tmp_path: Path
) -> None:
    recorder = Recorder(writer, "record")
    await recorder.record(0, partial(exchange, recorder))
    recorder.set_backend({"kind": "sglang"})
    await recorder.record(0, partial(exchange, recorder))
    recorder.close()
    with open_log(*log_paths([tmp_path])) as log:
        assert [found.backend for _, found in log.exchanges()] == [None, {"kind": "sglang"}]
