"""Bytes that do not fit into memory, in a temporary file without a name, which is gone with its process.

Rooms in the file are powers of two and are used again, so that it stays as large as what lies in it, a few
times over, however much went through it.
"""

from typing import IO, NamedTuple


class _Place(NamedTuple):
    start: int
    room: int  # bytes
    sizes: list[int]  # of the parts, which lie one behind the other


class SpilledParts:
    """Lists of byte strings by a number; a file that fails costs what lies in it, and raises nothing."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0
        self._places: dict[int, _Place] = {}
        self._unused: dict[int, list[int]] = {}  # size of rooms -> where they start

    def put(self, number: int, parts: tuple[bytes, ...]) -> bool:
        """Whether they could be written."""
        sizes = [len(part) for part in parts]
        place = self._free_place(sizes)
        try:
            file = self._opened()
            file.seek(place.start)
            file.writelines(parts)
            file.flush()
        except OSError:  # the disk is full, or there is none
            self._free(place)
            return False
        self._places[number] = place
        return True

    def take(self, number: int) -> list[bytes] | None:
        """Gives the parts and forgets them; None where they are not to be had."""
        place = self._places.pop(number, None)
        if place is None:
            return None
        self._free(place)
        try:
            file = self._opened()
            file.seek(place.start)
            parts = [file.read(size) for size in place.sizes]
        except OSError:
            return None
        return parts if [len(part) for part in parts] == place.sizes else None

    def drop(self, number: int) -> None:
        """Forgets what lies there under that number, if anything."""
        if (place := self._places.pop(number, None)) is not None:
            self._free(place)

    def clear(self) -> None:
        """Forgets all, and the file is gone."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        self._end = 0
        self._places.clear()
        self._unused.clear()

    def _free_place(self, sizes: list[int]) -> _Place:
        room = 1 << sum(sizes).bit_length()
        if unused := self._unused.get(room):
            return _Place(unused.pop(), room, sizes)
        start, self._end = self._end, self._end + room
        return _Place(start, room, sizes)

    def _free(self, place: _Place) -> None:
        self._unused.setdefault(place.room, []).append(place.start)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            import tempfile  # few logs need it

            self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- `clear` closes it
        return self._file
