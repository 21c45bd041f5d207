"""Reads trace logs: by offset, or one record after the other.

Bounded: one record's bodies at a time, and of earlier ones no more than `CACHE_BYTES`, because a record
may repeat parts of them. Linear: who reads the exchanges of a group in their order, or nearly so, has each
rebuilt once, however many are under way side by side; see `kept_bodies`. Damage is met, not suffered: what
stands before it is given, then it is named.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from turnstile.addon.tracelog.bases import MAX_DEPTH
from turnstile.addon.tracelog.blobs import blob_of
from turnstile.addon.tracelog.encoding import decode_exchange, summary_of
from turnstile.addon.tracelog.errors import LogCorruptError, LogFormatError
from turnstile.addon.tracelog.frames import DICTIONARY_SIZE, MAGIC, RecordType, unpacked
from turnstile.addon.tracelog.index import Index
from turnstile.addon.tracelog.kept_bodies import Bodies, KeptBodies
from turnstile.addon.tracelog.logfile import BLOBS, Damage, LogFile, Record
from turnstile.addon.tracelog.records import Exchange, Group, LogHeader, Reward, Summary, WeightReading

CACHE_BYTES = 256 * 1024 * 1024


def open_log(path: Path) -> "LogReader":
    """A reader of the trace log at `path`.

    Raises LogFormatError when it is none, or of a newer format; LogCorruptError when its header is damaged.
    """
    return LogReader(path)


def open_growing(path: Path) -> "LogReader":
    """A reader of a log that is being written, which has seen none of its records yet: see `read_on`.

    Raises as `open_log` does.
    """
    return LogReader(path, unread=True)


def log_paths(paths: Sequence[Path]) -> list[Path]:
    """The trace logs that `paths` name: files as they are, directories by their *.tslog; sorted, each once.

    Raises LogFormatError for a path that does not exist or is no regular file, and for a directory without
    trace logs.
    """
    found: set[Path] = set()
    for path in paths:
        logs = list(filter(_may_be_log, path.rglob("*.tslog") if path.is_dir() else [path]))
        if not path.exists() or not logs:
            raise LogFormatError(f"{path} {_why_none(path)}; name a .tslog file or a directory of them")
        found.update(logs)
    return sorted(found)


def _may_be_log(path: Path) -> bool:
    """Not a pipe, which would be waited for; a link that leads nowhere is named when it is opened."""
    return path.is_file() or not path.exists()


def _why_none(path: Path) -> str:
    if path.is_dir():
        return "holds no trace log (*.tslog)"
    return "is no regular file" if path.exists() else "does not exist"


_NOTHING = Bodies(b"", b"", b"")


class LogReader:
    """One trace log, opened. Use as a context manager, or `close` it.

    `damage` is what ends the readable part of the file before its end, None where it is whole.
    """

    def __init__(self, path: Path, *, unread: bool = False) -> None:
        self.path = path
        self._file = LogFile(path)
        try:
            self.header: LogHeader = self._file.header()
            self._index, self.damage = (Index(), None) if unread else self._file.index()
        except BaseException:
            self._file.close()
            raise
        self._is_growing, self._read_to = unread, len(MAGIC)
        self._kept = KeptBodies(CACHE_BYTES)
        self._resting: dict[int, list[int]] = {}  # record -> those that rest on it, of `_looked_through`
        self._looked_through: set[str] = set()  # groups
        self._backends: dict[int, Mapping[str, Any] | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        self.forget()

    def read_on(self, size_bytes: int) -> None:
        """Takes in what was written since the last time, up to that size of the file."""
        self._file.grown_to(size_bytes)
        self._read_to, self.damage = self._file.read_on(self._index, self._read_to)

    def forget(self) -> None:
        """Drops the exchanges kept for those that rest on them; they can be read again."""
        self._kept.clear()
        self._resting.clear()
        self._looked_through.clear()

    @property
    def groups(self) -> list[str]:
        """The groups that have exchanges here."""
        return list(self._index.exchanges)

    def offsets(self, group_id: str | None = None) -> list[int]:
        """Where the exchanges (of one group) lie, in file order."""
        return self._index.exchange_offsets(group_id)

    def summary(self, offset: int) -> Summary:
        """The exchange whose record lies at `offset`, its bodies not even looked at.

        Raises LogCorruptError when its envelope is damaged.
        """
        return self._summary(offset, self._file.envelope(offset, RecordType.EXCHANGE))

    def summaries(self, group_id: str | None = None) -> Iterator[Summary]:
        """The `summary` of every exchange (of one group) in file order; raises as that does."""
        return map(self.summary, self.offsets(group_id))

    def exchanges(self, group_id: str | None = None) -> Iterator[tuple[int, Exchange]]:
        """(offset, exchange) of every exchange (of one group) in file order; raises as `exchange` does."""
        for offset in self.offsets(group_id):
            yield offset, self.exchange(offset)

    def exchange(self, offset: int) -> Exchange:
        """The exchange whose record lies at `offset`.

        Raises LogCorruptError when the record, or one that it rests on, is damaged.
        """
        chain, below = self._chain(offset)
        for record in reversed(chain[1:]):
            _, below = self._decoded(record, below)
            self._kept.keep(record.offset, below)  # it was not asked for, and may never be
        exchange, bodies = self._decoded(chain[0], below)
        if (base := _base(chain[0].envelope)) is not None:
            self._kept.was_read(offset, base)
        # on what is written last, records may rest that are not written yet
        waiting = () if self._is_growing else self._resting_on(offset, exchange.group_id)
        if waiting or self._is_growing:
            self._kept.keep(offset, bodies, waiting)
        return exchange

    def rewards(self, first: int = 0) -> Iterator[Reward]:
        """Every reward in file order, but for the `first` ones. Raises LogCorruptError at a damaged one."""
        for offset in self._index.rewards[first:]:
            record = self._file.record(offset, RecordType.REWARD)
            with self._well_formed(offset):
                reward = Reward(**record.envelope, metadata=unpacked(record.body()))
            yield reward

    def groups_made(self, first: int = 0) -> Iterator[Group]:
        """What was said of groups in file order, but for the `first` records. Raises as `rewards` does."""
        for offset in self._index.groups[first:]:
            record = self._file.record(offset, RecordType.GROUP)
            with self._well_formed(offset):
                group = Group(**record.envelope, metadata=unpacked(record.body()))
            yield group

    def weight_readings(self, first: int = 0) -> Iterator[WeightReading]:
        """Every weight reading in file order, but for the `first` ones. Raises as `rewards` does."""
        for offset in self._index.weights[first:]:
            envelope = self._file.envelope(offset, RecordType.WEIGHTS)
            with self._well_formed(offset):
                reading = WeightReading(**envelope)
            yield reading

    def check(self) -> None:
        """Reads every record whole. Raises LogCorruptError at the first that is damaged."""
        for offset in self._index.backends:
            unpacked(self._file.record(offset, RecordType.BACKEND).body())
        for digest, offset in self._index.blobs.items():
            with self._well_formed(offset):
                digest_found = hashlib.sha256(self._blob(digest)).digest()
            if digest_found != digest:
                raise LogCorruptError(self.path, offset, "the blob does not have its SHA-256")
        for _ in self.exchanges():
            pass
        for _ in self.rewards():
            pass
        for _ in self.groups_made():
            pass
        for _ in self.weight_readings():
            pass

    def _summary(self, offset: int, envelope: Mapping[str, Any]) -> Summary:
        try:
            return summary_of(envelope, self.header.log_id, offset)
        except (KeyError, TypeError, ValueError) as error:
            raise LogCorruptError(self.path, offset, f"cannot be read: {error!r}") from error

    @contextmanager
    def _well_formed(self, offset: int) -> Iterator[None]:
        """What lies at `offset` has its checksums; whether it says what FORMAT.md wants is seen in here."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise LogCorruptError(self.path, offset, f"cannot be read: {error!r}") from error

    def _chain(self, offset: int) -> tuple[list[Record], Bodies]:
        """The record at `offset` and below it its bases down to one that is kept; the bodies of that."""
        chain = [self._file.record(offset, RecordType.EXCHANGE)]
        while (base := chain[-1].envelope.get("base")) is not None:
            is_earlier = isinstance(base, int) and 0 < base < chain[-1].offset
            if not is_earlier or len(chain) > MAX_DEPTH:
                raise LogCorruptError(self.path, chain[-1].offset, f"rests on offset {base}, which cannot be")
            if (kept := self._kept.get(base)) is not None:
                return chain, kept
            chain.append(self._file.record(base, RecordType.EXCHANGE))
        return chain, _NOTHING

    def _resting_on(self, offset: int, group_id: str) -> Sequence[int]:
        """The records that rest on that one. A writer lets none rest on one of another group."""
        if group_id not in self._looked_through:
            self._looked_through.add(group_id)
            for each in self.offsets(group_id):
                with suppress(LogCorruptError):  # is met when it is read
                    envelope = self._file.envelope(each, RecordType.EXCHANGE)
                    if (base := _base(envelope)) is not None:
                        self._resting.setdefault(base, []).append(each)
        return self._resting.get(offset, ())

    def _decoded(self, record: Record, below: Bodies) -> tuple[Exchange, Bodies]:
        """The exchange of a record that rests on `below`, and its own bodies."""
        body = record.body(below.dictionary)
        summary, backend = self._summary(record.offset, record.envelope), self._backend_at(record.offset)
        try:
            exchange = decode_exchange(summary, body, (below.request, below.reply), self._blob, backend)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise LogCorruptError(self.path, record.offset, f"cannot be rebuilt: {error}") from error
        return exchange, Bodies(exchange.request, exchange.reply, body[-DICTIONARY_SIZE:])

    def _blob(self, digest: bytes) -> bytes:
        if digest not in self._index.blobs:
            raise ValueError(f"blob {digest.hex()[:12]}... is not in this log")
        return blob_of(self._file.record(self._index.blobs[digest], *BLOBS))

    def _backend_at(self, offset: int) -> Mapping[str, Any] | None:
        """The probe in force at `offset`; None where none is known or its record is damaged."""
        at = self._index.backend_before(offset)
        if at is None:
            return self.header.backend
        if at not in self._backends:
            try:
                self._backends[at] = unpacked(self._file.record(at, RecordType.BACKEND).body())
            except LogCorruptError:
                self._backends[at] = None
        return self._backends[at]


def _base(envelope: Mapping[str, Any]) -> int | None:
    base = envelope.get("base")
    return base if isinstance(base, int) else None


__all__ = ["CACHE_BYTES", "Damage", "LogReader", "log_paths", "open_growing", "open_log"]
