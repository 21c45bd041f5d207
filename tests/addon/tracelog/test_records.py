import gzip
import zlib

import pytest
import zstandard

from tests.support.exchanges import exchange
from turnstile.addon.tracelog import records
from turnstile.addon.tracelog.records import Splice, content_decoded, spliced


def test_splices_edit_in_place() -> None:
    edits = (Splice(1, 1, b"new,"), Splice(4, 6, b""), Splice(8, 9, b"!"))
    assert spliced(b"{abcdefgh}", edits) == b"{new,abcfg!}"
    assert spliced(b"{}", ()) == b"{}"


def test_forwarded_body_is_the_decoded_request_with_its_edits() -> None:
    sent = exchange(
        request=gzip.compress(b'{"a":1}'),
        request_headers=(("Content-Encoding", "gzip"),),
        splices=(Splice(1, 1, b'"logprobs":true,'),),
    )
    assert sent.forwarded() == b'{"logprobs":true,"a":1}'


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("identity", bytes),
        (" GZip ", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:2]) + gzip.compress(body[2:])),
        ("gzip", lambda body: gzip.compress(body) + b"behind"),
        ("deflate", lambda body: zlib.compress(body, wbits=-15)),
        ("zstd", lambda body: zstandard.compress(body[:2]) + zstandard.compress(body[2:])),
    ],
)
def test_content_encoding_is_undone(encoding: str, encode: object) -> None:
    assert callable(encode)
    assert content_decoded(encode(b"hello"), (("content-encoding", encoding),)) == b"hello"


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:1000]) + gzip.compress(body[1000:])),
        ("zstd", zstandard.ZstdCompressor().compress),
    ],
)
def test_few_bytes_cannot_spell_gigabytes(
    encoding: str, encode: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(encode)
    monkeypatch.setattr(records, "LARGEST_CONTENT", 1000)
    assert content_decoded(encode(bytes(1000)), (("content-encoding", encoding),)) == bytes(1000)
    with pytest.raises(ValueError, match="holds more than 1000 bytes"):
        content_decoded(encode(bytes(1001)), (("content-encoding", encoding),))


def test_one_encoding_over_another_is_not_undone() -> None:
    packed, named = gzip.compress(gzip.compress(b"hello")), ("content-encoding", "gzip")
    with pytest.raises(ValueError, match="gzip,gzip"):
        content_decoded(packed, (named, named))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br", "nonsense"])
def test_encoding_that_cannot_be_undone_is_named(encoding: str) -> None:
    with pytest.raises(ValueError, match=encoding):
        content_decoded(b"hello", (("content-encoding", encoding),))
