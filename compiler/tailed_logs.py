"""The logs that one writer writes, read on while they grow."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from turnstile.addon.tracelog.errors import LogCorruptError
from turnstile.addon.tracelog.reader import LogReader, open_growing
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.replay import Replayed
from turnstile.compiler.weight_readings import WeightReadings


class Arrived(NamedTuple):
    """An exchange of a group; sorts in causal order."""

    started_at: float
    exchange_id: str
    log: Path
    offset: int


class TailedLogs:
    """Those in `directory` with this log id. For one thread at a time; `close` it."""

    def __init__(self, directory: Path, log_id: str) -> None:
        self._directory, self._log_id = directory, log_id
        self._logs: dict[Path, LogReader] = {}

    @property
    def logs(self) -> Mapping[Path, LogReader]:
        """In the order in which they were begun."""
        return self._logs

    def close(self) -> None:
        """Closes the logs."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def read_on(self, current: Path, size_bytes: int) -> None:
        """Takes in what the logs hold by now: those before `current` whole, that one up to its size."""
        for path in sorted(self._directory.glob(f"*-{self._log_id}-*.tslog")):
            if path not in self._logs:
                self._logs[path] = open_growing(path)
            log = self._logs[path]
            log.read_on(size_bytes if path == current else path.stat().st_size)
            if path != current:
                log.forget()  # little will be read of it again

    def arrived(self, group_id: str, seen: dict[Path, int]) -> Iterator[Arrived]:
        """The exchanges of a group behind those `seen`, so many of each log, which are counted up."""
        for path, log in self._logs.items():
            offsets = log.offsets(group_id)[seen.get(path, 0) :]
            seen[path] = seen.get(path, 0) + len(offsets)
            for offset in offsets:
                summary = log.summary(offset)
                yield Arrived(summary.started_at, summary.exchange_id, path, offset)

    def replayed(self, arrived: Arrived, readings: WeightReadings) -> Replayed | Finding:
        """An exchange as it was read, or what was found in its place."""
        place = Place(arrived.exchange_id, None, arrived.log.name, arrived.offset)
        try:
            exchange = self._logs[arrived.log].exchange(arrived.offset)
        except LogCorruptError as error:
            return place.error("log_corrupt", error.reason)
        except (TypeError, ValueError) as error:  # its checksums hold, and it is no record of ours
            return place.error("log_corrupt", f"malformed record ({type(error).__name__})")
        return Replayed(exchange, arrived.log.name, arrived.offset, readings.around(exchange))
