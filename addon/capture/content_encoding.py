"""Undoes content-encodings: of a whole body, and of a stream piece by piece.

Backends are asked for plain replies; some gateways compress all the same. A trace log is read without the
brotli module, which comes with mitmproxy, and a stream that was cut off may be undone in pieces only. So such
bodies are recorded without their encoding.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import brotli  # type: ignore[import-untyped]
import zstandard

from turnstile.addon.tracelog.records import Headers

NAME = "content-encoding"


class Decoder(Protocol):
    """Takes a compressed stream in pieces."""

    def feed(self, piece: bytes) -> bytes:
        """What can be told by now; raises an error of its library for what is not of its encoding."""


def stream_decoder(headers: Headers) -> Decoder | None:
    """For a body with these headers; None when it has no encoding. Raises ValueError for an unknown one."""
    encoding = _encoding(headers)
    if encoding == "":
        return None
    if encoding not in _DECODERS:
        raise ValueError(f"content-encoding {encoding!r} cannot be undone (known: {', '.join(_DECODERS)})")
    return _DECODERS[encoding]()


def recordable(body: bytes, headers: Headers) -> tuple[bytes, Headers]:
    """The body and its headers as the log holds them: brotli is undone, all else is as it came."""
    if _encoding(headers) != "br":
        return body, headers
    try:
        return cast(bytes, brotli.decompress(body)), without_encoding(headers)
    except brotli.error:
        return body, headers


def without_encoding(headers: Headers) -> Headers:
    """The headers of a body whose encoding was undone."""
    return tuple(header for header in headers if header[0].lower() != NAME)


def _encoding(headers: Headers) -> str:
    named = ",".join(value.strip().lower() for name, value in headers if name.lower() == NAME)
    return "" if named == "identity" else named


_GZIP_MAGIC = b"\x1f\x8b"


class _Gzip:
    """One member after another, as RFC 1952 allows; what follows and is none is ignored, as gzip does."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    def feed(self, piece: bytes) -> bytes:
        content = self._member.decompress(piece)
        while self._member.eof and (rest := self._member.unused_data).startswith(_GZIP_MAGIC):
            self._member = zlib.decompressobj(wbits=31)
            content += self._member.decompress(rest)
        return content


class _Deflate:
    """With its zlib header (RFC 9110), or bare, as some servers send it."""

    def __init__(self) -> None:
        self._inflater: Any = None

    def feed(self, piece: bytes) -> bytes:
        if self._inflater is None:
            has_header = piece[0] & 0x0F == 8
            self._inflater = zlib.decompressobj(wbits=15 if has_header else -15)
        return cast(bytes, self._inflater.decompress(piece))


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def feed(self, piece: bytes) -> bytes:
        return cast(bytes, self._decompressor.process(piece))


class _Zstd:
    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def feed(self, piece: bytes) -> bytes:
        return self._decompressor.decompress(piece)


_DECODERS: Mapping[str, Callable[[], Decoder]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
