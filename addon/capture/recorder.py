"""Hands records to the writer thread and tells each hook when its record is safe.

A hook waits as long as `durability` says. The queue is bounded in bytes and records: when it is full hooks
wait for room, in order, so that a slow disk slows the harness down and nothing is dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from turnstile.addon.capture.options import Durability
from turnstile.addon.capture.writer_thread import Job, Results, WriterThread
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.records import Entry, Exchange
from turnstile.addon.tracelog.writer import LogPosition, LogWriter

logger = logging.getLogger(__name__)

QUEUE_BYTES = 64 << 20
QUEUE_RECORDS = 1024


class Recorder:
    """Owns `writer` from now on; its methods are called on the event loop that made it."""

    def __init__(
        self,
        writer: LogWriter,
        durability: Durability,
        *,
        queue_bytes: int = QUEUE_BYTES,
        queue_records: int = QUEUE_RECORDS,
    ) -> None:
        self.position: LogPosition = writer.position  # after the last write
        self.failing = False  # the last write failed
        self.write_errors = 0  # exchanges that are not in the log
        self._log_id, self._numbers = writer.log_id, 0
        self._durability = durability
        self._loop = asyncio.get_running_loop()
        self._queue_bytes, self._queue_records = queue_bytes, queue_records
        self._held_bytes = self._held_records = 0  # queued or being written
        self._blocked: deque[tuple[int, asyncio.Future[None]]] = deque()  # wait for room
        self._waiters: dict[Job, asyncio.Future[Exception | None]] = {}
        self._thread = WriterThread(writer, durability, self._acknowledge_soon)

    def next_exchange_id(self) -> str:
        """An id that no other exchange of any log has; ids of one recorder sort in order."""
        self._numbers += 1
        return f"{self._log_id}-{self._numbers:06d}"

    async def record(self, size_bytes: int, make: Callable[[], Exchange]) -> None:
        """Records what `make` gives once there is room for its bodies of `size_bytes` in all.

        Returns when the record is as safe as `durability` says, with `batch` at once except while writes
        fail; raises LogWriteError when it cannot be written.
        """
        await self._room(size_bytes)
        try:
            exchange = make()
        except BaseException:
            self._release(size_bytes)
            raise
        if self._durability == "batch" and not self.failing:
            self._thread.put(Job(exchange, size_bytes))
        elif error := await self._done(Job(exchange, size_bytes, awaited=True)):
            raise LogWriteError(str(error)) from error

    async def record_entry(self, record: Entry) -> None:
        """Records what is no exchange; returns when it is written, whatever `durability` says.

        Raises LogWriteError when it cannot be.
        """
        self._hold(0)
        if error := await self._done(Job(record, awaited=True)):
            raise LogWriteError(str(error)) from error

    def record_at_once(self, record: Entry) -> None:
        """Queues the record whatever the bounds, and does not wait."""
        self._hold(0)
        self._thread.put(Job(record))

    def set_backend(self, facts: Mapping[str, Any]) -> None:
        """What answers the exchanges recorded from now on."""
        self._thread.put(Job(backend=facts))

    async def flush(self) -> None:
        """Returns when all that was handed over so far is written, or has failed to be."""
        await self._done(Job(awaited=True))

    def close(self) -> None:
        """Writes what is queued and ends the log; blocks. Who still waits for room is cancelled."""
        for _, turn in self._blocked:
            turn.cancel()
        self._thread.stop()

    async def _room(self, size: int) -> None:
        if self._blocked or not self._fits(size):
            turn: asyncio.Future[None] = self._loop.create_future()
            self._blocked.append((size, turn))
            await turn  # room is held for us then
        else:
            self._hold(size)

    def _fits(self, size: int) -> bool:
        # A record beyond the bound goes through alone.
        room = self._held_bytes + size <= self._queue_bytes and self._held_records < self._queue_records
        return room or self._held_records == 0

    def _hold(self, size: int) -> None:
        self._held_bytes += size
        self._held_records += 1

    def _release(self, size: int) -> None:
        self._held_bytes -= size
        self._held_records -= 1
        while self._blocked and self._fits(self._blocked[0][0]):
            waiting_size, turn = self._blocked.popleft()
            if not turn.done():
                self._hold(waiting_size)
                turn.set_result(None)

    async def _done(self, job: Job) -> Exception | None:
        waiter: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiters[job] = waiter
        self._thread.put(job)
        return await waiter

    def _acknowledge_soon(self, results: Results, position: LogPosition) -> None:
        """On the thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._acknowledge, results, position)

    def _acknowledge(self, results: Results, position: LogPosition) -> None:
        self.position = position
        for job, error in results:
            if job.record is not None:
                self.write_errors += error is not None and isinstance(job.record, Exchange)
                self._note(error)
                self._release(job.size_bytes)
            waiter = self._waiters.pop(job, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(error)

    def _note(self, error: Exception | None) -> None:
        """Keeps `failing`; says the first failure of a row, and its end."""
        if error is not None and not self.failing:
            logger.error("turnstile: CANNOT RECORD (said once until a write succeeds): %s", error)
        elif error is None and self.failing:
            logger.warning(
                "turnstile: recording again; exchanges that are not in the log: %d", self.write_errors
            )
        self.failing = error is not None
