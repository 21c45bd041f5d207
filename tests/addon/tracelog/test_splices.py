import base64
import random

import pytest

from turnstile.addon.tracelog.records import Splice
from turnstile.addon.tracelog.splices import pack_splices, unpack_splices

RAW = random.Random(3).randbytes(4000)
SPLICES = (Splice(2, 9, b'"data:image/png;base64,' + base64.b64encode(RAW) + b'"'), Splice(9, 9, b',"n":1'))


def test_an_image_in_a_splice_is_a_blob_and_comes_back() -> None:
    packed, blobs = pack_splices(SPLICES)
    assert list(blobs.values()) == [RAW]
    assert [len(fields) for fields in packed] == [4, 3]
    assert unpack_splices(packed, blobs.__getitem__) == SPLICES


def test_a_splice_of_the_first_format_reads() -> None:
    assert unpack_splices([[1, 2, b"x"]], {}.__getitem__) == (Splice(1, 2, b"x"),)


def test_no_more_comes_in_than_a_content_has() -> None:
    many = [[0, 0, b"", [b"digest"] * 100]]
    with pytest.raises(ValueError, match="in all"):
        unpack_splices(many, lambda digest: bytes(8 << 20))
