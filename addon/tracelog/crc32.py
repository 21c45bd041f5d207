"""The CRC-32 of two byte strings one behind the other, from those of both: zlib's crc32_combine.

A CRC is a polynomial over two elements, reduced by a fixed one of degree 32. To append n bits is to multiply
it by x to the nth, so that the bytes in front need not be read again. Bits are reflected, as zlib has them:
the highest of an int is the coefficient of x^0.
"""

_REDUCING = 0xEDB88320
_ONE, _X = 1 << 31, 1 << 30


def joined_crc32(front: int, behind: int, size_behind: int) -> int:
    """The CRC-32 of both; `size_behind` are the bytes of the second."""
    at = 0
    while size_behind >> at:
        if size_behind >> at & 1:
            front = _product(front, _BYTES[at])
        at += 1
    return front ^ behind


def _product(one: int, other: int) -> int:
    """Of two polynomials, reduced."""
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ _REDUCING if other & 1 else other >> 1
    return product


def _bytes() -> list[int]:
    """Of x the powers 8 * 2^n, for every n that the size of a body may have."""
    powers = [_X]
    while len(powers) < 3 + 40:
        powers.append(_product(powers[-1], powers[-1]))
    return powers[3:]


_BYTES = _bytes()
