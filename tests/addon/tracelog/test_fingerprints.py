from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.fingerprints import BLOCK, fingerprint


def shared(earlier: bytes, later: bytes) -> int:
    return fingerprint(earlier).shared_prefix(fingerprint(later), later)


def test_history_that_only_grew_is_shared_to_the_byte() -> None:
    earlier = b"x" * (2 * BLOCK) + b"tail]}"
    assert shared(earlier, b"x" * (2 * BLOCK) + b"tail,more]}") == 2 * BLOCK + 4


def test_change_inside_a_block_is_rounded_down_to_it() -> None:
    earlier = b"x" * (2 * BLOCK) + b"tail"
    assert shared(earlier, b"x" * (BLOCK + 7) + b"y" * BLOCK) == BLOCK


def test_short_bodies_are_compared_byte_by_byte() -> None:
    assert shared(b"abcdef", b"abcxyz") == 3
    assert shared(b"", b"abc") == 0


@given(st.integers(0, 3 * BLOCK), st.integers(0, 300), st.integers(0, 3 * BLOCK))
def test_what_is_known_of_the_front_is_taken_over(same: int, more: int, further: int) -> None:
    known, body = b"q" * same + b"1" * more, b"q" * same + b"2" * further
    assert fingerprint(body, fingerprint(known), same) == fingerprint(body)


@given(st.integers(0, 3 * BLOCK), st.integers(0, 3 * BLOCK), st.integers(0, 300), st.integers(0, 300))
def test_what_is_shared_is_the_same_in_both(a: int, b: int, tail_a: int, tail_b: int) -> None:
    earlier = b"q" * a + b"1" * tail_a
    later = b"q" * b + b"2" * tail_b
    size = shared(earlier, later)
    assert earlier[:size] == later[:size]
    assert size <= min(len(earlier), len(later))
