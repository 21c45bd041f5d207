"""A blob as a record and back: bytes that stand in bodies as base64, stored once a file.

Routed experts come as little-endian int32, of which no expert's number needs more than one byte or two. Such
a blob is narrowed to the bytes that are not always zero.
"""

from turnstile.addon.tracelog.frames import RecordType, pack_record
from turnstile.addon.tracelog.logfile import Record

_WIDE = 4  # bytes of an int32
_LOOKED_AT_FIRST = 4096  # bytes; hardly an image gets beyond them


def blob_record(digest: bytes, raw: bytes) -> bytes:
    """The record of `raw`, whose SHA-256 is `digest`."""
    for size in (1, 2):
        if _fits(raw[:_LOOKED_AT_FIRST], size) and _fits(raw, size):
            envelope = {"sha256": digest, "item_sizes": [_WIDE, size]}
            return pack_record(RecordType.NARROW_BLOB, envelope, _narrowed(raw, size))
    return pack_record(RecordType.BLOB, {"sha256": digest}, raw)


def blob_of(record: Record) -> bytes:
    """The bytes of a blob's record. Raises LogCorruptError, or ValueError for what cannot be widened."""
    stored = record.body()
    if record.head.type == RecordType.BLOB:
        return stored
    sizes = record.envelope.get("item_sizes")
    if sizes not in ([_WIDE, 1], [_WIDE, 2]) or len(stored) % sizes[1]:
        raise ValueError(f"{len(stored)} bytes cannot be widened by item sizes {sizes}")
    return _widened(stored, sizes[1])


def _fits(raw: bytes, size: int) -> bool:
    """Whether these are int32 that fit into so many bytes, and at least one."""
    if not raw or len(raw) % _WIDE:
        return False
    zeros = bytes(len(raw) // _WIDE)
    return all(raw[at::_WIDE] == zeros for at in reversed(range(size, _WIDE)))


def _narrowed(raw: bytes, size: int) -> bytes:
    if size == 1:
        return raw[::_WIDE]
    narrow = bytearray(len(raw) // _WIDE * size)
    for at in range(size):
        narrow[at::size] = raw[at::_WIDE]
    return bytes(narrow)


def _widened(narrow: bytes, size: int) -> bytes:
    raw = bytearray(len(narrow) // size * _WIDE)
    for at in range(size):
        raw[at::_WIDE] = narrow[at::size]
    return bytes(raw)
