import zlib

from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.crc32 import joined_crc32


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 100_000))
def test_joined_crcs_are_that_of_both(front: bytes, behind: bytes, zeros: int) -> None:
    behind += bytes(zeros)
    assert joined_crc32(zlib.crc32(front), zlib.crc32(behind), len(behind)) == zlib.crc32(front + behind)


def test_sizes_of_many_gigabytes_can_be_joined() -> None:
    size = 3 * 2**34 + 5
    halves = joined_crc32(joined_crc32(7, 1, size - 1000), 2, 1000)
    assert halves == joined_crc32(7, joined_crc32(1, 2, 1000), size)
