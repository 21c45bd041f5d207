"""The thread that owns the log writer: does jobs in order, what is queued together in one write."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from turnstile.addon.capture.options import Durability
from turnstile.addon.tracelog.records import Entry
from turnstile.addon.tracelog.writer import LogPosition, LogWriter

logger = logging.getLogger(__name__)

WINDOW_S = 0.1  # durability `batch` promises 200 ms; the write itself takes the rest
WINDOW_BYTES = 8 << 20  # so many are written at once, however young


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One thing to do: write a record, note a backend, or only be acknowledged."""

    record: Entry | None = None
    size_bytes: int = 0
    backend: Mapping[str, Any] | None = None
    awaited: bool = False  # somebody waits: nothing is gathered after it


Results = list[tuple[Job, Exception | None]]
Acknowledge = Callable[[Results, LogPosition], object]

_STOP = Job(awaited=True)


class WriterThread:
    """Works off `put` jobs and calls `acknowledge`, on its own thread, with what became of each.

    An error of any kind is a result like another: the thread goes on.
    """

    def __init__(self, writer: LogWriter, durability: Durability, acknowledge: Acknowledge) -> None:
        self._writer = writer
        self._durability = durability
        self._acknowledge = acknowledge
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="turnstile writer", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queues a job; never blocks."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Does what is queued, ends the log, and returns when both are done."""
        self._jobs.put(_STOP)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            jobs = self._take()
            stopping = _STOP in jobs
            results = self._work(jobs)
            if stopping:
                self._end()
            self._acknowledge(results, self._writer.position)

    def _take(self) -> list[Job]:
        """What is queued, at least one job; with `batch`, what comes within the window."""
        jobs = [self._jobs.get()]
        size, until = jobs[0].size_bytes, time.monotonic() + WINDOW_S
        while True:
            gather = self._durability == "batch" and not jobs[-1].awaited and size < WINDOW_BYTES
            left = until - time.monotonic() if gather else 0.0
            try:
                job = self._jobs.get(timeout=left) if left > 0 else self._jobs.get_nowait()
            except Empty:
                return jobs
            jobs.append(job)
            size += job.size_bytes

    def _work(self, jobs: Sequence[Job]) -> Results:
        """Does the jobs in order; records that stand side by side go into one write."""
        results: Results = []
        together: list[Job] = []
        for job in jobs:
            if job.record is not None:
                together.append(job)
                continue
            results += self._written(together)
            together = []
            if job.backend is not None:
                self._writer.set_backend(job.backend)
            results.append((job, None))
        return results + self._written(together)

    def _written(self, jobs: Sequence[Job]) -> Results:
        if not jobs:
            return []
        error = self._write(jobs)
        if error is not None and len(jobs) > 1:
            # One record may be at fault; the others shall not be lost with it.
            return [(job, self._write([job])) for job in jobs]
        return [(job, error) for job in jobs]

    def _write(self, jobs: Sequence[Job]) -> Exception | None:
        try:
            self._writer.write([job.record for job in jobs if job.record is not None])
        except Exception as error:
            return error
        return None

    def _end(self) -> None:
        try:
            self._writer.close()
        except Exception as error:
            logger.error("turnstile: the trace log has no index at its end: %s", error)
