"""A streamed reply on its way to the harness: what mitmproxy calls with each piece of its body.

mitmproxy's rules for that. A piece is any fragment of the body; b"" comes once at its end, and not when the
backend breaks off. An empty answer would end the harness's body, so "nothing yet" is []. An exception would
lose the piece and may hang the harness, so after one the bytes pass as they come.

[DONE] alone is held back until the exchange is recorded, for a harness that has read it may end the proxy.
Of what the backend sends behind it only what came in the same piece is in the record.
"""

import re
import time
from collections.abc import Callable, Iterable
from itertools import accumulate

from turnstile.addon.backends.live import LiveRestorer
from turnstile.addon.capture.content_encoding import Decoder
from turnstile.addon.tracelog.records import Arrival

_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r){2}")


class LeftUnrecordedError(RuntimeError):
    """mitmproxy went on while [DONE] was held back: the harness gets it before the record is made."""


class LiveStream:
    """One reply; keeps its pieces, their content-encoding undone, and when they came.

    `restorer` None: they pass untouched. `at_fault` notes a failure of ours, `behind_done` that there is more
    after [DONE]; they do not raise.
    """

    def __init__(
        self,
        *,
        started_at: float,
        decoder: Decoder | None,
        restorer: LiveRestorer | None,
        at_fault: Callable[[Exception], object],
        behind_done: Callable[[], object],
    ) -> None:
        self.restorer = restorer
        self.held_back = b""  # the event [DONE] and what came with it; goes before all that comes later
        self._started_at = started_at
        self._at_fault, self._behind_done = at_fault, behind_done
        self._decoder = decoder  # None from its first failure on, like the next
        self._restoring = restorer
        self._pieces: list[bytes] = []
        self._came_at: list[float] = []
        self._is_done = self._is_cut = self._fault_noted = False

    def __call__(self, piece: bytes) -> list[bytes]:
        """What goes to the harness now; for b"" what goes last."""
        if self._is_cut:
            return []
        content = self._decoded(piece)
        before = len(self._pieces)
        if content:
            self._pieces.append(content)
            self._came_at.append(time.time())
        if self._is_done and content.strip():
            self._behind_done()
        given = self._left_unrecorded() if self.held_back else b""
        try:
            given += self._restored(content, is_end=not piece)
        except Exception as error:
            self._restoring = None
            self._at_fault(error)
            given += _unfinished(self._pieces[:before]) + content
        return [given] if given else []

    def released(self) -> bytes:
        """What was held back, which is so no longer."""
        held_back, self.held_back = self.held_back, b""
        return held_back

    def cut(self) -> None:
        """Nothing more goes to the harness: the record is made, and says that it did not get the end."""
        self._is_cut, self.held_back = True, b""

    @property
    def size_bytes(self) -> int:
        """Of what has come so far."""
        return sum(map(len, self._pieces))

    @property
    def reply(self) -> bytes:
        """What has come so far."""
        return b"".join(self._pieces)

    @property
    def arrivals(self) -> tuple[Arrival, ...]:
        """The pieces of `reply`."""
        ends = accumulate(map(len, self._pieces))
        return tuple(map(Arrival, ends, (at - self._started_at for at in self._came_at)))

    def _left_unrecorded(self) -> bytes:
        try:
            raise LeftUnrecordedError
        except LeftUnrecordedError as error:
            self._at_fault(error)
        return self.released()

    def _decoded(self, piece: bytes) -> bytes:
        if self._decoder is None or not piece:
            return piece
        try:
            return self._decoder.feed(piece)
        except Exception as error:
            self._decoder = None
            self._at_fault(error)
            return piece

    def _restored(self, content: bytes, *, is_end: bool) -> bytes:
        restorer = self._restoring
        if restorer is None:
            return content
        given = restorer.end() if is_end else restorer.feed(content)
        if restorer.fault is not None and not self._fault_noted:
            self._fault_noted = True
            self._at_fault(restorer.fault)  # it passes on by itself what it cannot restore
        if restorer.done_at is not None and not self._is_done:
            self._is_done = True
            given, self.held_back = given[: restorer.done_at], given[restorer.done_at :]
        return given


def _unfinished(pieces: Iterable[bytes]) -> bytes:
    """Of these pieces what was not handed on yet: the event that has not ended."""
    content = b"".join(pieces)
    end = max((match.end() for match in _BLANK_LINE.finditer(content)), default=0)
    return content[end:].lstrip(b"\r\n")
