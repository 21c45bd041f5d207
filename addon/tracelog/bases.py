"""Remembers the exchanges that a coming one may repeat, and finds the one that it repeats most of."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from turnstile.addon.tracelog.fingerprints import Fingerprint
from turnstile.addon.tracelog.growing_spans import GrowingSpan, Kind

PER_ROLLOUT = 64
"""Exchanges kept for one key: attempts of a group that do not name their rollouts, sub-agents, branches."""

MEMORY = 48 * 1024 * 1024
"""Bytes kept over all keys; the least recently used go first."""

REPLIES = 80 * 1024 * 1024
"""Bytes of whole replies that may be held beside; the earliest are let go first."""

MAX_DEPTH = 512
"""Longest chain of bases: what reading a single record costs at the most."""

_LEFT_OVER = 1024  # bytes of a request that may be left unshared when the next takes its place,
_LEFT_OVER_PART = 4  # and no more than a quarter: short requests of two attempts are alike by their frame

Key = tuple[str, str | None]  # group, rollout


@dataclass(frozen=True, slots=True)
class Base:
    """An exchange that lies in the log already."""

    offset: int
    depth: int  # bases below it
    request: Fingerprint
    growing: Mapping[Kind, GrowingSpan]  # of its reply
    dictionary: bytes  # the end of its record's body

    @property
    def memory(self) -> int:
        """Bytes that it holds."""
        growing = sum(span.memory for span in self.growing.values())
        return self.request.memory + growing + len(self.dictionary) + 400

    @property
    def held(self) -> int:
        """Bytes of its reply while it holds on to that."""
        return max((span.held for span in self.growing.values()), default=0)


class Bases:
    """All that is remembered of one file."""

    def __init__(self, memory: int = MEMORY, replies: int = REPLIES) -> None:
        self._kept: OrderedDict[Key, OrderedDict[int, Base]] = OrderedDict()
        self._free = memory
        self._holding: OrderedDict[int, Base] = OrderedDict()  # those that hold on to their replies
        self._free_for_replies = replies

    def best(self, key: Key, request: Fingerprint, body: bytes) -> tuple[Base | None, int]:
        """(the remembered exchange that shares the longest beginning with this request, its length in bytes).

        `request` is the fingerprint of `body`. The latest of equals; (None, 0) when none is remembered.
        """
        usable = [base for base in self._kept.get(key, {}).values() if base.depth < MAX_DEPTH]
        blocks = [base.request.blocks_shared_with(request) for base in usable]
        most = max(blocks, default=0)
        near = [base for base, shared in zip(usable, blocks, strict=True) if shared == most]
        shared = [(base.request.shared_prefix(request, body), base.offset, base) for base in near]
        if not shared:
            return None, 0
        length, _, base = max(shared)
        return base, length

    def add(self, key: Key, base: Base, repeats: Base | None, shared: int) -> None:
        """Remembers `base`; it takes the place of `repeats` when it shares nearly all of that."""
        kept = self._kept.setdefault(key, OrderedDict())
        self._kept.move_to_end(key)
        if repeats is not None:
            size = repeats.request.size
            if size - shared <= min(_LEFT_OVER, size // _LEFT_OVER_PART):
                self._drop(kept, repeats.offset)
        kept[base.offset] = base
        self._free -= base.memory
        self._hold(base)
        if len(kept) > PER_ROLLOUT:
            self._drop(kept, next(iter(kept)))
        while self._free < 0 and len(self._kept) > 1:
            oldest_key = next(iter(self._kept))
            for offset in list(self._kept[oldest_key]):
                self._drop(self._kept[oldest_key], offset)
            del self._kept[oldest_key]

    def clear(self) -> None:
        """Forgets everything: the next exchanges stand on their own."""
        for kept in self._kept.values():
            self._free += sum(base.memory for base in kept.values())
        self._kept.clear()
        self._free_for_replies += sum(base.held for base in self._holding.values())
        self._holding.clear()

    def _drop(self, kept: OrderedDict[int, Base], offset: int) -> None:
        if base := kept.pop(offset, None):
            self._free += base.memory
            if self._holding.pop(offset, None):
                self._free_for_replies += base.held

    def _hold(self, base: Base) -> None:
        if base.held:
            self._holding[base.offset] = base
            self._free_for_replies -= base.held
        while self._free_for_replies < 0:
            _, earliest = self._holding.popitem(last=False)
            self._free_for_replies += earliest.held
            for span in earliest.growing.values():
                span.let_go()
