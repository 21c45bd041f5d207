"""Keeps the bodies of exchanges for the records that rest on them, so that none is rebuilt for each of these.

In memory up to a bound. What does not fit goes into a temporary file without a name while there are records
that wait for it, and is given up otherwise; of what is in memory, that goes first which nobody waits for.
Nothing depends on what is kept: it can be rebuilt from the log, at the cost of all that it rests on itself.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from turnstile.addon.tracelog.spilled_parts import SpilledParts


@dataclass(frozen=True, slots=True)
class Bodies:
    """What later records may rest on."""

    request: bytes
    reply: bytes
    dictionary: bytes

    @property
    def memory(self) -> int:
        """Bytes that they hold."""
        return len(self.request) + len(self.reply) + len(self.dictionary)


class KeptBodies:
    """Bodies by the offset of their record; `memory` bytes of them in memory, or those of one exchange."""

    def __init__(self, memory: int) -> None:
        self._free = memory
        self._in_memory: OrderedDict[int, Bodies] = OrderedDict()  # the first is the first to go
        self._on_disk = SpilledParts()
        self._waiting: dict[int, set[int]] = {}  # record -> the records that will still want its bodies

    def get(self, offset: int) -> Bodies | None:
        """The bodies of that record; None where they are not kept."""
        if offset not in self._in_memory and (parts := self._on_disk.take(offset)) is not None:
            self._hold(offset, Bodies(*parts))
        if offset in self._in_memory:
            self._in_memory.move_to_end(offset)
        return self._in_memory.get(offset)

    def keep(self, offset: int, bodies: Bodies, waiting: Iterable[int] = ()) -> None:
        """Keeps them while there is room, and if it can until the records of `waiting` were read."""
        self._waiting[offset] = set(waiting)
        if offset not in self._in_memory:
            self._on_disk.drop(offset)
            self._hold(offset, bodies)

    def was_read(self, offset: int, base: int) -> None:
        """The record at `offset`, which rests on `base`, will not want its bodies again."""
        waiting = self._waiting.get(base, set())
        waiting.discard(offset)
        if waiting:
            return
        if base in self._in_memory:
            self._in_memory.move_to_end(base, last=False)
        else:
            self._give_up(base)

    def clear(self) -> None:
        """Gives up all."""
        self._free += sum(bodies.memory for bodies in self._in_memory.values())
        self._in_memory.clear()
        self._on_disk.clear()
        self._waiting.clear()

    def _hold(self, offset: int, bodies: Bodies) -> None:
        self._in_memory[offset] = bodies
        self._free -= bodies.memory
        while self._free < 0 and len(self._in_memory) > 1:
            first, given_up = self._in_memory.popitem(last=False)
            self._free += given_up.memory
            parts = (given_up.request, given_up.reply, given_up.dictionary)
            if not self._waiting[first] or not self._on_disk.put(first, parts):
                self._give_up(first)

    def _give_up(self, offset: int) -> None:
        self._on_disk.drop(offset)
        self._waiting.pop(offset, None)
