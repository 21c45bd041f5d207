"""Tells how much of a body repeats an earlier one without keeping the earlier one.

A harness resends its history with every turn, so the writer would need every rollout's last body in
memory to find what is new. It keeps a digest of each block and the bytes after the last whole block
instead: some kilobytes a rollout, two thousandths of what it repeats.

The digest is Python's own hash of bytes, SipHash with 64 bits under a key that each process draws: three
times as fast as SHA-256, which counts where every reply repeats megabytes. Nobody who does not know the key
can make two blocks that look the same. Should two do so by chance, the body's CRC, which is another function,
tells when it is read.
"""

from array import array
from dataclasses import dataclass

BLOCK = 4096  # bytes
_DIGEST = 8  # bytes


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Stands for a body of `size` bytes."""

    size: int
    digests: bytes  # of the whole blocks, one after another
    tail: bytes  # what follows the last whole block

    @property
    def memory(self) -> int:
        """Bytes that it holds."""
        return memory_of_fingerprint(self.size)

    def blocks_shared_with(self, other: "Fingerprint") -> int:
        """How many whole blocks at the front are the same."""
        mine, others = self.digests, other.digests
        shorter = min(len(mine), len(others))
        if mine[:shorter] == others[:shorter]:
            return shorter // _DIGEST
        return equal_front(mine, others) // _DIGEST

    def shared_prefix(self, other: "Fingerprint", body: bytes | memoryview) -> int:
        """How many bytes at the front of `body`, whose fingerprint is `other`, this one has too.

        Exact when they differ after the last whole block of this body, as histories that only grow do;
        otherwise rounded down to a block.
        """
        blocks = self.blocks_shared_with(other)
        at = blocks * BLOCK
        if blocks * _DIGEST < len(self.digests):
            return at
        return at + equal_front(self.tail, bytes(body[at : at + len(self.tail)]))


def fingerprint(body: bytes | memoryview, known: Fingerprint | None = None, same: int = 0) -> Fingerprint:
    """The fingerprint of `body`, whose first `same` bytes are those of the body that `known` stands for."""
    blocks = 0 if known is None else min(same // BLOCK, len(known.digests) // _DIGEST)
    front = b"" if known is None else known.digests[: blocks * _DIGEST]
    whole = len(body) - len(body) % BLOCK
    view = memoryview(body)
    # the hash of a view would begin with that of all the bytes it is a view of
    hashes = [hash(bytes(view[at : at + BLOCK])) for at in range(blocks * BLOCK, whole, BLOCK)]
    digests = array("q", hashes)
    return Fingerprint(len(body), front + digests.tobytes(), bytes(view[whole:]))


def memory_of_fingerprint(size: int) -> int:
    """Bytes that the fingerprint of so many bytes holds."""
    return size // BLOCK * _DIGEST + size % BLOCK + 120


def equal_front(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
