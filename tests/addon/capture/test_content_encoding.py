import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from turnstile.addon.capture.content_encoding import recordable, stream_decoder, without_encoding

BODY = b"data: one\n\ndata: two\n\n" * 20


def deflated(wbits: int) -> Callable[[bytes], bytes]:
    def compress(body: bytes) -> bytes:
        compressor = zlib.compressobj(wbits=wbits)
        return compressor.compress(body) + compressor.flush()

    return compress


def in_parts(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """One gzip member, or zstd frame, after another."""
    return lambda body: compress(body[:30]) + compress(body[30:31]) + compress(body[31:])


zstd = zstandard.ZstdCompressor().compress
PACKED = {
    "gzip": [("gzip", gzip.compress), ("gzip", in_parts(gzip.compress)), ("GZip", gzip.compress)],
    "deflate": [("deflate", deflated(15)), ("deflate", deflated(-15))],
    "br": [("br", brotli.compress)],
    "zstd": [("zstd", zstd), ("zstd", in_parts(zstd))],
}


@pytest.mark.parametrize(("name", "compress"), [case for cases in PACKED.values() for case in cases])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_stream_is_undone_piece_by_piece(name: str, compress: Callable[[bytes], bytes], size: int) -> None:
    packed, decoder = compress(BODY), stream_decoder((("Content-Encoding", name),))
    assert decoder is not None
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(map(decoder.feed, pieces)) == BODY


@pytest.mark.parametrize("behind", [b"\0", b"\0" * 9, b"no member", b"\x1f", b"\x1f\x8a and so on"])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_bytes_behind_the_last_gzip_member_are_ignored_as_gzip_does(behind: bytes, size: int) -> None:
    packed, decoder = in_parts(gzip.compress)(BODY) + behind, stream_decoder((("content-encoding", "gzip"),))
    assert decoder is not None
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    assert b"".join(map(decoder.feed, pieces)) == BODY


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_was_flushed_is_told_at_once(name: str) -> None:
    first, _ = flushed(name)
    decoder = stream_decoder((("content-encoding", name),))
    assert decoder is not None
    assert decoder.feed(first) == b"data: 1\n\n"


def flushed(name: str) -> tuple[bytes, bytes]:
    """The first event of a stream whose sender flushes after each, and the rest."""
    if name == "br":
        compressor = brotli.Compressor()
        return compressor.process(b"data: 1\n\n") + compressor.flush(), compressor.finish()
    if name == "zstd":
        chunker = zstandard.ZstdCompressor().compressobj()
        return chunker.compress(b"data: 1\n\n") + chunker.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), b""
    packer = zlib.compressobj(wbits=31 if name == "gzip" else 15)
    return packer.compress(b"data: 1\n\n") + packer.flush(zlib.Z_SYNC_FLUSH), packer.flush()


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_of_its_encoding_is_an_error(name: str) -> None:
    decoder = stream_decoder((("content-encoding", name),))
    assert decoder is not None
    with pytest.raises((zlib.error, brotli.error, zstandard.ZstdError)):
        for _ in range(3):
            decoder.feed(b"data: 1\n\n")


def test_a_plain_stream_needs_no_decoder() -> None:
    assert stream_decoder(()) is None
    assert stream_decoder((("content-encoding", "identity"),)) is None


@pytest.mark.parametrize("name", ["compress", "gzip, br"])
def test_an_unknown_encoding_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"'.*' cannot be undone \(known: gzip, deflate, br, zstd\)"):
        stream_decoder((("content-encoding", name),))


def test_brotli_is_recorded_plain_and_all_else_as_it_came() -> None:
    others = (("a", "b"), ("c", "d"))
    headers = (others[0], ("Content-Encoding", "br"), others[1])
    assert recordable(brotli.compress(BODY), headers) == (BODY, others) == (BODY, without_encoding(headers))
    assert recordable(b"no brotli", headers) == (b"no brotli", headers)
    gzipped = (gzip.compress(BODY), (("content-encoding", "gzip"),))
    assert recordable(*gzipped) == gzipped
