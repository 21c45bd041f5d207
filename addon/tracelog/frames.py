"""A record as bytes: a checked head, a plain envelope, a compressed body.

The head is checked by itself, so that no size it claims is believed before its checksum holds:
a reader never allocates for a record more than a sound head says. See FORMAT.md, "Records".
"""

import struct
from enum import IntEnum
from typing import Any, NamedTuple, Self

import msgpack
import zstandard
from zlib_ng.zlib_ng import crc32

MAGIC = b"TSLOG\x00\r\n"  # \r\n: a file that went through a text-mode copy is told at once
FORMAT_MAJOR = 1  # a reader refuses a higher one
FORMAT_MINOR = 3  # a reader ignores what a higher one added

_HEAD = struct.Struct("<BBHIIIIII")
HEAD_SIZE = _HEAD.size
DICTIONARY_SIZE = 16 * 1024
LEVEL = 4  # bench/log_size.py: 3 takes 3 % more bytes, 6 takes 2 % less and a third more time
LARGE = 64 * 1024  # bytes; a body this big is new from end to end, an image or a first long prompt,
LARGE_LEVEL = 1  # and would hold the writer up: 8 % more bytes in half the time


class RecordType(IntEnum):
    """What a record holds; a reader steps over the types it does not know."""

    HEADER = 1
    BACKEND = 2
    EXCHANGE = 3
    BLOB = 4
    REWARD = 5
    INDEX = 6
    WEIGHTS = 7
    GROUP = 8
    NARROW_BLOB = 9


class Head(NamedTuple):
    """The fixed part in front of a record; all sizes in bytes."""

    type: int
    envelope_size: int
    stored_size: int  # of the body as it lies in the file
    body_size: int  # of the body once decompressed
    envelope_checksum: int  # CRC-32
    stored_checksum: int  # CRC-32 of the body as it lies in the file

    @property
    def record_size(self) -> int:
        """Of the whole record, head included."""
        return HEAD_SIZE + self.envelope_size + self.stored_size

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """The head in `data` (HEAD_SIZE bytes), None where its own checksum does not hold."""
        kind, _, _, *sizes_and_checksums, own = _HEAD.unpack(data)
        return cls(kind, *sizes_and_checksums) if crc32(data[:-4]) == own else None


def pack_record(kind: RecordType, envelope: Any, body: bytes, dictionary: bytes = b"") -> bytes:
    """The record as it is written; `dictionary` is what the reader will have at hand as well."""
    front = packed(envelope)
    level = LEVEL if len(body) < LARGE else LARGE_LEVEL
    stored = _compressor(level, dictionary).compress(body) if body else b""
    sizes = len(front), len(stored), len(body)
    head = _HEAD.pack(kind, 0, 0, *sizes, crc32(front), crc32(stored), 0)[:-4]
    return b"".join((head, crc32(head).to_bytes(4, "little"), front, stored))


class BodyUnpacker:
    """Undoes the compression of bodies, one at a time.

    Made once a file: zstd asks the processor for its features whenever it makes a context, which takes
    longer on a virtual machine than most bodies do.
    """

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def body(self, head: Head, stored: bytes, dictionary: bytes = b"") -> bytes:
        """The body of a record; raises ValueError where it does not decompress to what the head claims."""
        if not head.body_size:
            return b""
        try:
            claimed = zstandard.frame_content_size(stored)
            if claimed != head.body_size:
                raise ValueError(f"body claims {claimed} bytes, its head says {head.body_size}")
            return self._decompressed(stored, dictionary)
        except zstandard.ZstdError as error:
            raise ValueError(f"body does not decompress ({error})") from error

    def _decompressed(self, stored: bytes, dictionary: bytes) -> bytes:
        if not dictionary:
            return self._zstd.decompress(stored)
        # a dictionary cannot be set, but in a chain what a frame holds is the dictionary of the next
        return self._zstd.decompress_content_dict_chain([_uncompressed(dictionary), stored])


def packed(value: Any) -> bytes:
    """`value` in msgpack; headers that are not UTF-8 survive."""
    data: bytes = msgpack.packb(value, unicode_errors="surrogateescape")
    return data


def unpacked(data: bytes) -> Any:
    """The inverse of `packed`. Raises ValueError for anything else."""
    try:
        return msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape")
    except (msgpack.UnpackException, msgpack.ExtraData) as error:
        raise ValueError(f"no msgpack: {error}") from error


def _compressor(level: int, dictionary: bytes) -> zstandard.ZstdCompressor:
    if not dictionary:
        return zstandard.ZstdCompressor(level=level)
    return zstandard.ZstdCompressor(level=level, dict_data=_raw(dictionary))


def _uncompressed(content: bytes) -> bytes:
    """A zstd frame of one block that holds `content`, up to 128 kB, as it is (RFC 8878, 3.1.1)."""
    magic, single_segment_with_size = b"\x28\xb5\x2f\xfd", b"\xa0"
    last_raw_block = len(content) << 3 | 1
    sizes = len(content).to_bytes(4, "little") + last_raw_block.to_bytes(3, "little")
    return b"".join((magic, single_segment_with_size, sizes, content))


def _raw(dictionary: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
