"""Harnesses that read chat streams and note when each chunk came.

A harness has one keep-alive connection and asks for one stream after another. While streams run only arrivals
are noted; what came is taken apart afterwards, so that the reading disturbs the timing little.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from load import REPLY_LIMIT_S, LoadError
from sglang_stream import DONE, sent_at

_BODY_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Timing:
    """How one stream came."""

    first_token_ms: float  # from the request to the first token
    delays_ms: list[float]  # of each token: from the backend's sending to the harness's reading


class StreamConnection(asyncio.Protocol):
    """One keep-alive HTTP connection with one stream under way at a time."""

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connects to `port` of this machine. Raises OSError."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = bytearray()
        self._ends: list[int] = []  # in `_received`, of the pieces as they came
        self._came_at: list[int] = []
        self._ended: asyncio.Future[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended and not self._ended.done():
            self._ended.set_exception(LoadError(f"the connection closed before the stream's end: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._came_at.append(time.monotonic_ns())
        self._received += data
        self._ends.append(len(self._received))
        if self._ended and not self._ended.done() and self._received.endswith(_BODY_END):
            self._ended.set_result(None)

    async def ask(self, path: str, body: bytes, tokens: int) -> Timing:
        """Reads one stream of so many tokens. Raises LoadError when it is not whole."""
        self._ended = asyncio.get_running_loop().create_future()
        self._received.clear()
        self._ends.clear()
        self._came_at.clear()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        asked_at = time.monotonic_ns()
        self._transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await asyncio.wait_for(self._ended, REPLY_LIMIT_S)
        return self._timing(asked_at, tokens)

    def close(self) -> None:
        """Hangs up."""
        self._transport.close()

    def _timing(self, asked_at: int, tokens: int) -> Timing:
        body, frames = _unframed(bytes(self._received))
        if DONE not in body:
            raise LoadError(f"no whole stream: {body[:200]!r} ... {body[-100:]!r}")
        events = list(sent_at(body))[1 : tokens + 1]  # the first tells the role
        if len(events) != tokens:
            raise LoadError(f"{len(events)} tokens came of {tokens}")
        read_at = [self._came_at[bisect_left(self._ends, _in_received(end, frames))] for end, _ in events]
        delays = [(read - sent) / 1e6 for read, (_, sent) in zip(read_at, events, strict=True)]
        return Timing((read_at[0] - asked_at) / 1e6, delays)


def _unframed(received: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """The body of a chunked reply, and where its frames end: in the body, and in `received`."""
    at = received.index(b"\r\n\r\n") + 4
    if not received.startswith(b"HTTP/1.1 200 ") or b"chunked" not in received[:at].lower():
        raise LoadError(f"no stream: {received[:300]!r}")
    body, frames = bytearray(), []
    while size := int(received[at : (line_end := received.index(b"\r\n", at))], 16):
        at = line_end + 2 + size
        body += received[line_end + 2 : at]
        frames.append((len(body), at))
        at += 2
    return bytes(body), frames


def _in_received(body_offset: int, frames: Sequence[tuple[int, int]]) -> int:
    body_end, received_end = frames[bisect_left(frames, (body_offset, 0))]
    return received_end - (body_end - body_offset)
