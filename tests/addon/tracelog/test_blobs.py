import hashlib
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.blobs import blob_of, blob_record
from turnstile.addon.tracelog.frames import HEAD_SIZE, BodyUnpacker, Head, RecordType, pack_record, unpacked
from turnstile.addon.tracelog.logfile import Record


def as_read(frame: bytes) -> Record:
    head = Head.unpack(frame[:HEAD_SIZE])
    assert head is not None
    at = HEAD_SIZE + head.envelope_size
    return Record(Path("a.tslog"), 0, head, unpacked(frame[HEAD_SIZE:at]), frame[at:], BodyUnpacker())


def integers(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (integers(*range(256)), 1),
        (integers(*[127] * 5000), 1),
        (integers(*range(257)), 2),
        (integers(*range(60000, 65536)), 2),
        (integers(*[1] * 5000, 256), 2),
    ],
)
def test_small_integers_are_stored_in_few_bytes(raw: bytes, size: int) -> None:
    record = as_read(blob_record(hashlib.sha256(raw).digest(), raw))
    assert record.head.type == RecordType.NARROW_BLOB
    assert record.envelope == {"sha256": hashlib.sha256(raw).digest(), "item_sizes": [4, size]}
    assert record.head.body_size == len(raw) // 4 * size
    assert blob_of(record) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        integers(*range(50)) + b"\0",
        integers(*range(50), 65536),
        integers(*range(50), -1),
        integers(*[1] * 5000, -1),
        integers(*[1] * 5000) + b"\1",
        bytes(range(256)),
    ],
)
def test_other_bytes_are_stored_as_they_are(raw: bytes) -> None:
    record = as_read(blob_record(hashlib.sha256(raw).digest(), raw))
    assert record.head.type == RecordType.BLOB
    assert (record.body(), blob_of(record)) == (raw, raw)


@pytest.mark.parametrize("sizes", [None, 3, [4, 3], [4, 0], [4, 4], [8, 1], [4], [10**9, 1]])
def test_a_blob_that_cannot_be_widened_is_an_error(sizes: Any) -> None:
    frame = pack_record(RecordType.NARROW_BLOB, {"sha256": b"", "item_sizes": sizes}, b"1234")
    with pytest.raises(ValueError, match="4 bytes cannot be widened"):
        blob_of(as_read(frame))


def test_half_an_item_is_an_error() -> None:
    frame = pack_record(RecordType.NARROW_BLOB, {"sha256": b"", "item_sizes": [4, 2]}, b"123")
    with pytest.raises(ValueError, match="3 bytes cannot be widened"):
        blob_of(as_read(frame))


@given(st.lists(st.integers(0, 2**17), max_size=40), st.binary(max_size=3))
def test_any_bytes_come_back(numbers: list[int], more: bytes) -> None:
    raw = integers(*numbers) + more
    assert blob_of(as_read(blob_record(b"", raw))) == raw
