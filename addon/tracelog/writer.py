"""Writes trace logs: appends whole records, and leaves no half one behind when it fails.

Not thread-safe; one thread owns a writer. Several processes may write into one directory, each into
files of its own. The layout of the records is FORMAT.md's.
"""

import os
import secrets
import socket
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turnstile.addon.tracelog.bases import Bases
from turnstile.addon.tracelog.blobs import blob_record
from turnstile.addon.tracelog.encoding import encode_exchange
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.frames import FORMAT_MAJOR, FORMAT_MINOR, MAGIC, RecordType, pack_record, packed
from turnstile.addon.tracelog.index import Index
from turnstile.addon.tracelog.records import Entry, Group, Reward, WeightReading

ROTATE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far a log has been written."""

    path: str
    offset: int  # bytes


class LogWriter:
    """Appends records to `<start>-<log id>-<part>.tslog` in `directory`, which is made if absent.

    `program` says who writes, with versions. With `fsync` a write is on the disk when it returns. A file that
    has reached `rotate_bytes` is closed and the next part begun. Raises LogWriteError when the directory
    cannot take a file.
    """

    def __init__(
        self, directory: Path, *, program: str, rotate_bytes: int = ROTATE_BYTES, fsync: bool = False
    ) -> None:
        self.log_id = secrets.token_hex(8)
        self._directory = directory
        self._program = program
        self._rotate_bytes = rotate_bytes
        self._fsync = fsync
        self._backend: Mapping[str, Any] | None = None
        self._backend_written = True  # in this file, if there is one to write
        self._index, self._bases = Index(), Bases()
        self._part = 0
        self._file: int | None = None
        self._path = directory
        self._offset = 0
        self._open()

    @property
    def position(self) -> LogPosition:
        """The file being written and its length."""
        return LogPosition(str(self._path), self._offset)

    def set_backend(self, facts: Mapping[str, Any]) -> None:
        """What a probe found; the exchanges written from now on were answered by this backend."""
        if facts == self._backend:
            return
        self._backend = dict(facts)
        self._backend_written = False

    def write(self, records: Sequence[Entry]) -> None:
        """Appends the records in order; the operating system has them, or the disk, when this returns.

        Raises LogWriteError; then none of them is in the log, and a later call may succeed. (Where the file
        cannot even be cut back it is given up, and the whole ones of these records stay in it.)
        """
        if self._file is None or self._offset >= self._rotate_bytes:
            self.close()
            self._open()
        self._check_file()
        start, chunks = self._offset, []
        try:
            for record in records:
                chunks += self._encoded(record)
            self._append(b"".join(chunks))
        except BaseException as error:
            self._take_back(start)
            if isinstance(error, OSError):
                raise LogWriteError(
                    f"{self._path}: cannot append {len(records)} record(s): {error}"
                ) from error
            raise

    def close(self) -> None:
        """Ends the file with its index; a later `write` begins the next part."""
        if self._file is None:
            return
        file, self._file = self._file, None
        index = pack_record(RecordType.INDEX, {"at": self._offset}, packed(self._index.as_record()))
        footer = self._offset.to_bytes(8, "little") + MAGIC
        try:
            _write_all(file, index + footer)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, self._offset)  # a log without index is whole all the same
            raise LogWriteError(f"{self._path}: cannot write the index: {error}") from error
        finally:
            os.close(file)

    def _open(self) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path = self._directory / f"{stamp}-{self.log_id}-{self._part:04d}.tslog"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise LogWriteError(f"{path}: cannot begin a trace log: {error}") from error
        header = MAGIC + pack_record(RecordType.HEADER, {}, packed(self._header()))
        try:
            _write_all(file, header)
        except OSError as error:
            os.close(file)
            path.unlink(missing_ok=True)
            raise LogWriteError(f"{path}: cannot begin a trace log: {error}") from error
        self._file, self._path, self._offset = file, path, len(header)
        self._part += 1
        self._index, self._bases = Index(), Bases()
        self._backend_written = True  # in the header

    def _header(self) -> dict[str, Any]:
        return {
            "format": [FORMAT_MAJOR, FORMAT_MINOR],
            "log_id": self.log_id,
            "part": self._part,
            "program": self._program,
            "process_id": os.getpid(),
            "host": socket.gethostname(),
            "started_at": time.time(),
            "backend": self._backend,
        }

    def _encoded(self, record: Entry) -> list[bytes]:
        if isinstance(record, Reward):
            return [self._placed(self._index.rewards, _reward_record(record))]
        if isinstance(record, Group):
            return [self._placed(self._index.groups, _group_record(record))]
        if isinstance(record, WeightReading):
            return [self._placed(self._index.weights, pack_record(RecordType.WEIGHTS, asdict(record), b""))]
        frames = []
        if not self._backend_written:
            body = packed(self._backend)
            frames.append(self._placed(self._index.backends, pack_record(RecordType.BACKEND, {}, body)))
            self._backend_written = True
        encoded = encode_exchange(record, self.log_id, self._bases)
        for digest, raw in encoded.blobs.items():
            if digest not in self._index.blobs:
                self._index.blobs[digest] = self._offset
                frames.append(self._counted(blob_record(digest, raw)))
        self._index.add_exchange(record.group_id, self._offset)
        self._bases.add((record.group_id, record.rollout_id), encoded.as_base(self._offset), *encoded.repeats)
        frames.append(self._counted(encoded.frame))
        return frames

    def _placed(self, offsets: array[int], frame: bytes) -> bytes:
        offsets.append(self._offset)
        return self._counted(frame)

    def _counted(self, frame: bytes) -> bytes:
        self._offset += len(frame)
        return frame

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        _write_all(self._file, data)
        if self._fsync:
            os.fsync(self._file)

    def _take_back(self, offset: int) -> None:
        """Forgets what was written since the log was `offset` bytes long, and cuts the file there.

        A file that cannot be cut is given up as it is: it reads up to its last whole record.
        """
        assert self._file is not None
        try:
            os.ftruncate(self._file, offset)
        except OSError:
            self._give_up()
        self._offset = offset
        self._bases.clear()
        self._index.cut(offset)
        # said once more, in case its record is among those taken back
        self._backend_written = self._backend is None

    def _check_file(self) -> None:
        """Raises LogWriteError when somebody deleted or changed the file; the next write begins another."""
        assert self._file is not None
        found = os.fstat(self._file)
        if found.st_nlink and found.st_size == self._offset:
            return
        self._give_up()
        what = (
            "was deleted" if not found.st_nlink else f"has {found.st_size} bytes, {self._offset} were written"
        )
        raise LogWriteError(f"{self._path}: the trace log {what} while it was open; a new one is begun next")

    def _give_up(self) -> None:
        assert self._file is not None
        os.close(self._file)
        self._file = None


def _reward_record(reward: Reward) -> bytes:
    envelope: dict[str, Any] = {
        "group_id": reward.group_id,
        "rollout_id": reward.rollout_id,
        "sequence_id": reward.sequence_id,
    }
    envelope |= {"reward": reward.reward, "at": reward.at}
    return pack_record(RecordType.REWARD, envelope, packed(dict(reward.metadata)))


def _group_record(group: Group) -> bytes:
    envelope = {
        "group_id": group.group_id,
        "max_trajectory_tokens": group.max_trajectory_tokens,
        "at": group.at,
    }
    return pack_record(RecordType.GROUP, envelope, packed(dict(group.metadata)))


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
