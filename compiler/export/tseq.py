"""The `.tseq` file: a zstd frame of msgpack maps, a header and then one a sequence.

The header is {"format": "turnstile sequences", "version": 2}. A sequence has the fields of the JSONL line;
`tokens`, `logprobs` and `routed_experts` (if not nil) are arrays: {"dtype": "<i4", "<f8", "|u1" or "<u2",
"shape": [...], "data": its bytes, little-endian, C order}. A map like that anywhere else is what a harness
sent. Integers beyond 64 bits are msgpack extension 1, in decimal.

Since version 2: `routed_experts`; an image's file stands once, as {"image": its SHA-256 in hexadecimal,
"data": its bytes}, somewhere before the first sequence that has it; in `images` there is no `data`. The
tensors in `processed_images` have their bytes as `data`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgpack
import numpy as np
import zstandard

from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export.records import as_record, from_record
from turnstile.compiler.sequence import TrainingSequence

VERSION = 2

_NAME = "turnstile sequences"
_LEVEL = 3
_BIG_INTEGER = 1
_FAULTS = (ValueError, KeyError, TypeError, AttributeError)  # of what is no sequence
_ARRAYS = ("tokens", "logprobs", "routed_experts")
_DTYPES = {
    np.dtype(np.int32): "<i4",
    np.dtype(np.float64): "<f8",
    np.dtype(np.uint8): "|u1",
    np.dtype(np.uint16): "<u2",
}


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


class TseqWriter:
    """Writes msgpack maps into a zstd stream."""

    def __init__(self, stream: _Sink) -> None:
        self._stream = stream
        self._written: set[str] = set()  # images
        self._stream.write(msgpack.packb({"format": _NAME, "version": VERSION}))

    def write(self, sequence: TrainingSequence) -> None:
        """Appends a sequence."""
        record = as_record(sequence)
        for image in record["images"]:
            data = image.pop("data")
            if image["sha256"] not in self._written:
                self._written.add(image["sha256"])
                self._stream.write(msgpack.packb({"image": image["sha256"], "data": data}))
        self._stream.write(msgpack.packb(record, default=_packable, unicode_errors="surrogatepass"))


@contextmanager
def open_writer(path: Path) -> Iterator[TseqWriter]:
    """A writer into a new file at `path`."""
    with path.open("wb") as file, zstandard.ZstdCompressor(_LEVEL).stream_writer(file) as stream:
        yield TseqWriter(stream)


def read(path: Path) -> Iterator[TrainingSequence]:
    """The sequences of a file in order. Raises SequenceFileError where it is cut off or damaged."""
    count, images = 0, dict[str, bytes]()
    with path.open("rb") as file:
        try:
            maps = _maps(file)
            _check_header(next(maps, None), path)
            for item in maps:
                if "image" in item:
                    images[item["image"]] = item["data"]
                    continue
                arrays = {name: _array(item[name]) for name in _ARRAYS if item[name] is not None}
                files = [image | {"data": images[image["sha256"]]} for image in item["images"]]
                yield from_record(item | arrays | {"images": files})
                count += 1
        except (*_FAULTS, zstandard.ZstdError, msgpack.UnpackException) as error:
            raise SequenceFileError(
                f"{path}: cannot be read behind its first {count} sequences: {error!r}"
            ) from error


def _maps(file: BinaryIO) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(max_buffer_size=0, ext_hook=_as_integer, unicode_errors="surrogatepass")
    stream = zstandard.ZstdDecompressor().decompressobj()
    while chunk := file.read(1 << 16):
        if stream.eof:
            raise ValueError("there are bytes behind the end")
        unpacker.feed(stream.decompress(chunk))
        yield from unpacker
    if not stream.eof:
        raise ValueError("the file is cut off")


def _check_header(header: Any, path: Path) -> None:
    if not isinstance(header, dict) or header.get("format") != _NAME:
        raise SequenceFileError(f"{path} is zstd and holds no training sequences")
    if header["version"] > VERSION:
        raise SequenceFileError(f"{path} has version {header['version']}, this one reads up to {VERSION}")


def _packable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype = _DTYPES[value.dtype]
        return {"dtype": dtype, "shape": value.shape, "data": value.astype(dtype, copy=False).tobytes()}
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INTEGER, str(value).encode())
    raise TypeError(f"a {type(value).__name__} has no place in a sequence")


def _array(item: Any) -> Any:
    if not isinstance(item, dict):
        raise TypeError(f"found a {type(item).__name__}, expected an array")
    array = np.frombuffer(item["data"], item["dtype"]).reshape(item["shape"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _as_integer(code: int, data: bytes) -> int:
    if code != _BIG_INTEGER:
        raise ValueError(f"unknown msgpack extension {code}")
    return int(data)
