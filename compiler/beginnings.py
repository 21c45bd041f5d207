"""Remembers texts that later ones begin with, and what was read out of them.

What a harness sends and a server answers grows from turn to turn and repeats all that was there before.
A text is found again by the last bytes of its blocks, and what is found so is only a guess until it has been
compared whole. So a search costs the same however many conversations are under way. Bounded: the texts
longest unused are forgotten.
"""

from dataclasses import dataclass
from operator import attrgetter

KEPT_BYTES = 64 * 1024 * 1024

_BLOCK = 512
_MARK = 16  # bytes at the end of a block by which it is known again

type _Mark = tuple[int, bytes]  # number of a block, its last bytes


@dataclass(frozen=True, slots=True)
class Kept[Value]:
    """A text and what it says. It is the first `size` bytes of `source`, so that it needs no copy of them."""

    source: bytes
    size: int
    value: Value

    @property
    def text(self) -> memoryview:
        """The bytes that count."""
        return memoryview(self.source)[: self.size]

    @property
    def blocks(self) -> int:
        """How many whole ones it has."""
        return self.size // _BLOCK


@dataclass(slots=True, eq=False)
class _Line[Value]:
    """A text that grows: whatever was said of it holds of what it becomes."""

    kept: Kept[Value]


class Beginnings[Value]:
    """The latest texts of one group."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._lines: dict[int, _Line[Value]] = {}  # by the id of what they are now, the latest last
        self._by_end: dict[_Mark, dict[int, Kept[Value]]] = {}  # those whose last whole block it is
        self._by_block: dict[_Mark, _Line[Value]] = {}  # the latest that has the block
        self._free_bytes = kept_bytes

    def keep(self, kept: Kept[Value], instead_of: Kept[Value] | None = None) -> None:
        """Remembers a text; it takes the place of one that it begins with."""
        line, known_blocks = _Line(kept), 0
        if instead_of is not None and id(instead_of) in self._lines:
            line, known_blocks = self._taken_out(instead_of), instead_of.blocks
            line.kept = kept
        self._lines[id(kept)] = line
        self._free_bytes -= len(kept.source)
        self._by_end.setdefault(_mark(kept.source, kept.blocks), {})[id(kept)] = kept
        for number in range(known_blocks + 1, kept.blocks + 1):
            self._by_block[_mark(kept.source, number)] = line
        while self._free_bytes < 0 and len(self._lines) > 1:
            self._forget(next(iter(self._lines.values())))

    def whole_in(self, text: bytes, followed_by: tuple[bytes, ...]) -> Kept[Value] | None:
        """The longest with which `text` begins, with one of these bytes behind it (b"" is the end)."""
        for number in range(len(text) // _BLOCK, -1, -1):
            if (ended := self._by_end.get(_mark(text, number))) is not None:
                found = [kept for kept in ended.values() if _begins(text, kept, followed_by)]
                if found:
                    return max(found, key=attrgetter("size"))
        return None

    def most_alike(self, text: bytes) -> Kept[Value] | None:
        """The one that most likely shares the longest beginning with `text`, the latest of equals."""
        for number in range(len(text) // _BLOCK, 0, -1):
            if (line := self._by_block.get(_mark(text, number))) is not None:
                return line.kept
        return None

    def _taken_out(self, kept: Kept[Value]) -> _Line[Value]:
        self._free_bytes += len(kept.source)
        ended = self._by_end[end := _mark(kept.source, kept.blocks)]
        del ended[id(kept)]
        if not ended:
            del self._by_end[end]
        return self._lines.pop(id(kept))

    def _forget(self, line: _Line[Value]) -> None:
        self._taken_out(line.kept)
        for number in range(1, line.kept.blocks + 1):
            if self._by_block.get(mark := _mark(line.kept.source, number)) is line:
                del self._by_block[mark]


def _mark(text: bytes, number: int) -> _Mark:
    """Of the n-th block, counted from 1; 0 is the beginning of every text."""
    end = number * _BLOCK
    return number, text[end - _MARK : end] if number else b""


def _begins(text: bytes, kept: Kept[object], followed_by: tuple[bytes, ...]) -> bool:
    end = kept.size
    last = slice(max(0, end - _MARK), end)
    return (
        text[end : end + 1] in followed_by
        and text[last] == kept.source[last]  # far cheaper than the whole
        and text.startswith(kept.text)
    )
