"""One trace log as a file: its header, where its records lie, and each record checked when it is read."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zlib_ng.zlib_ng import crc32

from turnstile.addon.tracelog.errors import LogCorruptError, LogFormatError
from turnstile.addon.tracelog.frames import (
    FORMAT_MAJOR,
    HEAD_SIZE,
    MAGIC,
    BodyUnpacker,
    Head,
    RecordType,
    unpacked,
)
from turnstile.addon.tracelog.index import Index
from turnstile.addon.tracelog.records import LogHeader

BLOBS = (RecordType.BLOB, RecordType.NARROW_BLOB)

NO_GROUP = ""
"""Where an exchange is entered whose group is no text: who reads it is told that it is corrupt."""

_FOOTER_SIZE = 8 + len(MAGIC)
_READ_AHEAD = 8 * 1024  # bytes; most records are smaller, so that one read gives head, envelope and body


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the readable part of a log ends before the file does."""

    kind: Literal["log_torn", "log_corrupt"]
    offset: int  # of the first record that cannot be read
    message: str


@dataclass(frozen=True, slots=True)
class Record:
    """A record whose checksum holds, its body still compressed."""

    path: Path
    offset: int
    head: Head
    envelope: dict[str, Any]
    stored: bytes
    unpacker: BodyUnpacker

    def body(self, dictionary: bytes = b"") -> bytes:
        """Decompressed. Raises LogCorruptError when it is not what its head says."""
        try:
            return self.unpacker.body(self.head, self.stored, dictionary)
        except ValueError as error:
            raise LogCorruptError(self.path, self.offset, str(error)) from error


class LogFile:
    """A trace log opened for reading; raises LogFormatError when it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise LogFormatError(f"{path}: cannot be opened: {error.strerror}") from error
        self._size = os.fstat(self._file.fileno()).st_size
        self._unpacker = BodyUnpacker()
        self._ahead, self._ahead_at = b"", 0  # what was read last, and from which offset on

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def header(self) -> LogHeader:
        """The first record.

        Raises LogFormatError for another kind of file or a newer format, LogCorruptError for damage.
        """
        magic = self._read(0, len(MAGIC))
        if magic != MAGIC and MAGIC.startswith(magic):
            raise LogCorruptError(
                self.path, 0, f"the file ends after {len(magic)} bytes, inside its beginning"
            )
        if magic != MAGIC:
            raise LogFormatError(f"{self.path} is no trace log: it begins with {magic!r}, expected {MAGIC!r}")
        fields = self._unpacked(len(MAGIC), self.record(len(MAGIC), RecordType.HEADER).body())
        try:
            major, minor = fields.pop("format")
            too_new = major > FORMAT_MAJOR
            header = LogHeader(**{name: fields.get(name) for name in LogHeader.__slots__})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LogCorruptError(self.path, len(MAGIC), f"the header cannot be read: {error!r}") from error
        if too_new:
            raise LogFormatError(
                f"{self.path} has format {major}.{minor}, this version reads up to {FORMAT_MAJOR}.x: "
                "read it with a newer turnstile"
            )
        return header

    def record(self, offset: int, *kinds: RecordType) -> Record:
        """The record at `offset`. Raises LogCorruptError when it is damaged or of another type."""
        head = self._whole_head(offset, kinds)
        envelope = self._envelope(offset, head)
        stored = self._read(offset + HEAD_SIZE + head.envelope_size, head.stored_size)
        if crc32(stored) != head.stored_checksum:
            raise LogCorruptError(self.path, offset, "its body's checksum does not hold")
        return Record(self.path, offset, head, envelope, stored, self._unpacker)

    def envelope(self, offset: int, kind: RecordType) -> dict[str, Any]:
        """The envelope of the record at `offset`; raises as `record` does, but for a damaged body."""
        return self._envelope(offset, self._whole_head(offset, (kind,)))

    def _whole_head(self, offset: int, kinds: Sequence[RecordType]) -> Head:
        head = self._head(offset)
        if head is None or offset + head.record_size > self._size:
            raise LogCorruptError(self.path, offset, "its head is damaged or it is cut off")
        if head.type not in kinds:
            expected = " or ".join(f"{kind.name} ({kind})" for kind in kinds)
            raise LogCorruptError(self.path, offset, f"has type {head.type}, expected {expected}")
        return head

    def index(self) -> tuple[Index, Damage | None]:
        """Where the records lie: from the index at the end, else from a walk over all heads."""
        end = self._size
        if self._read(max(0, end - len(MAGIC)), len(MAGIC)) == MAGIC and end > _FOOTER_SIZE + len(MAGIC):
            end -= _FOOTER_SIZE
            try:
                return self._written_index(int.from_bytes(self._read(end, 8), "little")), None
            except (LogCorruptError, AttributeError, KeyError, TypeError, ValueError):
                pass  # what it says can be found without it
        index = Index()
        return index, self.read_on(index, len(MAGIC))[1]

    def _written_index(self, offset: int) -> Index:
        return Index.from_record(unpacked(self.record(offset, RecordType.INDEX).body()))

    def read_on(self, index: Index, start: int) -> tuple[int, Damage | None]:
        """Enters the records from offset `start` on into the index; gives where it came to.

        That is the file's end as far as it is to be read, the record that closes it, or damage.
        """
        offset = start
        while offset < self._size:
            head = self._head(offset)
            if head is None or offset + head.record_size > self._size:
                return offset, _damage(offset, self._size - offset, head)
            if head.type == RecordType.INDEX and offset + head.record_size + _FOOTER_SIZE == self._size:
                break
            try:
                self._enter(index, offset, head)
            except LogCorruptError as error:
                return offset, Damage("log_corrupt", offset, f"{error.reason}; nothing after it was read")
            offset += head.record_size
        return offset, None

    def grown_to(self, size_bytes: int) -> None:
        """From now on the file is read up to there."""
        self._size = min(size_bytes, os.fstat(self._file.fileno()).st_size)

    def _enter(self, index: Index, offset: int, head: Head) -> None:
        """Notes the record in the index; types of newer minor versions are stepped over."""
        if head.type == RecordType.EXCHANGE:
            group_id = self._envelope(offset, head).get("group_id")
            index.add_exchange(group_id if isinstance(group_id, str) else NO_GROUP, offset)
        elif head.type in BLOBS:
            index.blobs[self._digest(offset, head)] = offset
        elif head.type == RecordType.BACKEND:
            index.backends.append(offset)
        elif head.type == RecordType.REWARD:
            index.rewards.append(offset)
        elif head.type == RecordType.WEIGHTS:
            index.weights.append(offset)
        elif head.type == RecordType.GROUP:
            index.groups.append(offset)

    def _digest(self, offset: int, head: Head) -> bytes:
        digest = self._envelope(offset, head).get("sha256")
        if not isinstance(digest, bytes):
            raise LogCorruptError(self.path, offset, "its envelope has no sha256")
        return digest

    def _envelope(self, offset: int, head: Head) -> dict[str, Any]:
        data = self._read(offset + HEAD_SIZE, head.envelope_size)
        if crc32(data) != head.envelope_checksum:
            raise LogCorruptError(self.path, offset, "its envelope's checksum does not hold")
        envelope = self._unpacked(offset, data)
        if not isinstance(envelope, dict):
            raise LogCorruptError(self.path, offset, "its envelope is no map")
        return envelope

    def _unpacked(self, offset: int, data: bytes) -> Any:
        try:
            return unpacked(data)
        except ValueError as error:
            raise LogCorruptError(self.path, offset, str(error)) from error

    def _head(self, offset: int) -> Head | None:
        data = self._read(offset, HEAD_SIZE)
        return Head.unpack(data) if len(data) == HEAD_SIZE else None

    def _read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; never asks for more than the file holds."""
        start = offset - self._ahead_at
        if start < 0 or start + size > len(self._ahead):
            if size > _READ_AHEAD:
                return self._from_disk(offset, size)
            self._ahead, self._ahead_at, start = self._from_disk(offset, _READ_AHEAD), offset, 0
        return self._ahead[start : start + size]

    def _from_disk(self, offset: int, size: int) -> bytes:
        size = min(size, max(0, self._size - offset))
        parts = []
        while size > 0 and (part := os.pread(self._file.fileno(), size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _damage(offset: int, left: int, head: Head | None) -> Damage:
    if left < HEAD_SIZE or head is not None:
        needed = head.record_size if head else HEAD_SIZE
        found = f"{left} bytes are left, it needs {needed}"
        return Damage(
            "log_torn",
            offset,
            f"the record at offset {offset} is incomplete ({found}); all before it are whole",
        )
    return Damage(
        "log_corrupt",
        offset,
        f"the head at offset {offset} is damaged; the {left} bytes from there cannot be read",
    )
