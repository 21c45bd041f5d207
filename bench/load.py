"""Load on a proxy, and what the proxy's process took for it.

A client is a number of keep-alive connections, each of which sends one request after another. Nothing waits
for ever: a reply has a minute. The figures of a process are Linux's own, so this runs on Linux only.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mock_backend import content_length

REPLY_LIMIT_S = 60.0
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED of the Linux kernel: time on a core, user and system


class LoadError(Exception):
    """A request was not answered as it should have been."""


@dataclass(frozen=True, slots=True)
class Request:
    """A POST, and a piece of text that the reply must hold."""

    path: str
    body: bytes
    expected: bytes


class Connection(asyncio.Protocol):
    """One keep-alive HTTP connection with one request under way at a time."""

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connects to `port` of this machine. Raises OSError."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = bytearray()
        self._reply: asyncio.Future[tuple[bytes, bytes]] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply and not self._reply.done():
            self._reply.set_exception(LoadError(f"the connection closed before the reply: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0 or self._reply is None:
            return
        head = bytes(self._received[:head_end])
        if len(self._received) >= head_end + 4 + content_length(head):
            body = bytes(self._received[head_end + 4 :])
            self._received.clear()
            self._reply.set_result((head, body))

    async def ask(self, request: Request) -> None:
        """Sends the request and waits for its reply. Raises LoadError when it is not the expected one."""
        self._reply = asyncio.get_running_loop().create_future()
        head = f"POST {request.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._transport.write(f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body)
        reply_head, body = await asyncio.wait_for(self._reply, REPLY_LIMIT_S)
        if not reply_head.startswith(b"HTTP/1.1 200 ") or request.expected not in body:
            raise LoadError(f"{request.path}: {reply_head[:60]!r} {body[:200]!r}")

    def close(self) -> None:
        """Hangs up."""
        self._transport.close()


async def send(connections: Sequence[Connection], queues: Sequence[Iterable[Request]]) -> None:
    """Each connection sends its own queue of requests; all side by side. Raises LoadError."""

    async def send_one_by_one(connection: Connection, queue: Iterable[Request]) -> None:
        for request in queue:
            await connection.ask(request)

    async with asyncio.TaskGroup() as tasks:
        for connection, queue in zip(connections, queues, strict=True):
            tasks.create_task(send_one_by_one(connection, queue))


def cpu_s(pid: int) -> float:
    """CPU seconds that a process, all its threads and its children took so far."""
    return sum(_own_cpu_s(process) for process in _family(pid))


def peak_memory_mib(pid: int) -> float:
    """The most memory that a process had resident so far, its children's added."""
    return sum(_peak_kib(process) for process in _family(pid)) / 1024


def _family(pid: int) -> list[int]:
    family = [pid]
    for member in family:
        for thread in Path(f"/proc/{member}/task").iterdir():
            family += [int(child) for child in (thread / "children").read_text().split()]
    return family


def _own_cpu_s(pid: int) -> float:
    # The clock of clock_getcpuclockid(3), for which Python has no name. It counts nanoseconds, and threads
    # that have ended as well; /proc/PID/stat counts hundredths of a second.
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
