"""What handing on live streams costs: added delays, and CPU time of mitmdump with the addon against without.

Three ways lead to one mock backend, which answers at once and then sends a token at a time, paced as a server
does it: direct, through a mitmdump that only hands replies on, and through one with Turnstile and its log on
the disk. They are loaded in turn. Each chunk carries the time at which it was sent. CPU time is the least of
the rounds, delays are those of all rounds together; unlike CPU time they mean little on a busy machine.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from figures import Figure, run_alone
from load import cpu_s
from processes import ADDON, Proxy, check_captured, mitmdump, mock_backend
from recording import CHAT_PATH
from sglang_reply import dumped
from stream_load import StreamConnection, Timing

RATIO_AT_MOST = 1.5  # of CPU time with the addon to that without
START_SPREAD_S = 0.5  # in which the streams of a round begin
PASSING = Path(__file__).resolve().parent / "pass_streams.py"


@dataclass(frozen=True, slots=True)
class Case:
    """Streams side by side."""

    name: str
    clients: int
    tokens: int  # of each stream, a chunk each
    tokens_a_s: int  # of each stream; 0: as fast as they go
    streams: int = 1  # of each client in a round, one after the other
    rounds: int = 2

    @property
    def streams_a_round(self) -> int:
        """Of all clients."""
        return self.clients * self.streams


SHORT = Case("short streams, one by one", clients=1, tokens=3, tokens_a_s=100, streams=30)
PACED = (
    Case("1 stream, 100 chunks/s", clients=1, tokens=150, tokens_a_s=100, rounds=4),
    Case("16 streams, 100 chunks/s", clients=16, tokens=350, tokens_a_s=100),
    Case("64 streams, 50 chunks/s", clients=64, tokens=125, tokens_a_s=50),
)
UNPACED = Case("8 streams, unpaced", clients=8, tokens=500, tokens_a_s=0, rounds=3)


@dataclass(slots=True)
class _Way:
    """One of the ways to the backend, and what was measured on it."""

    name: str
    port: int
    proxy: Proxy | None = None
    cpu_s: list[float] = field(default_factory=list)  # of each round
    timings: list[Timing] = field(default_factory=list)

    def path(self, group_id: str) -> str:
        captures = self.proxy is not None and self.proxy.captures
        return f"/group/{group_id}{CHAT_PATH}" if captures else CHAT_PATH


def measure() -> list[Figure]:
    """The figures of all cases."""
    with (
        mock_backend() as backend,
        tempfile.TemporaryDirectory() as log,
        mitmdump(backend, "-s", str(PASSING)) as bare,
        mitmdump(
            backend,
            *("-s", str(ADDON), "--set", f"turnstile_log={log}", "--set", "turnstile_streaming=live"),
        ) as live,
    ):
        cases = (SHORT, *PACED, UNPACED)
        figures = [figure for case in cases for figure in _of_case(case, backend, bare, live)]
        check_captured(live, sum(1 + case.streams_a_round * case.rounds for case in cases))
        return figures


def _of_case(case: Case, backend: int, bare: Proxy, live: Proxy) -> Iterator[Figure]:
    direct = _Way("direct", backend)
    passing, capturing = _Way("bare", bare.port, bare), _Way("live", live.port, live)
    ways = (direct, passing, capturing)
    for way in ways:
        asyncio.run(_warm_up(case, way))
    for number in range(case.rounds):
        for way in ways:
            asyncio.run(_round(case, way, f"{case.clients}-{case.tokens}-{case.tokens_a_s}-{number}"))
    if case is SHORT or (case in PACED and case.clients > 1):  # one client has too few first tokens
        yield from _delays(f"{case.name}: time to first token", _first_token_ms, direct, passing, capturing)
    if case in PACED:
        yield from _delays(f"{case.name}: delay, median", _delay_ms, direct, passing, capturing)
        yield from _delays(f"{case.name}: delay, p99", _delay_p99_ms, direct, passing, capturing)
    yield from _costs(case, min(passing.cpu_s), min(capturing.cpu_s))


async def _warm_up(case: Case, way: _Way) -> None:
    """One stream that is not measured: the backend makes its tokens then."""
    connection = await StreamConnection.open(way.port)
    await connection.ask(way.path("warm-up"), _request(case.tokens, 0), case.tokens)
    connection.close()


async def _round(case: Case, way: _Way, label: str) -> None:
    """Loads the way once, and notes what was measured."""
    connections = [await StreamConnection.open(way.port) for _ in range(case.clients)]
    await asyncio.sleep(0.1)  # a proxy connects to the backend
    before = cpu_s(way.proxy.process_id) if way.proxy else 0.0
    async with asyncio.TaskGroup() as tasks:
        clients = [
            tasks.create_task(_client(case, way, connection, f"{label}-{client}", client))
            for client, connection in enumerate(connections)
        ]
    way.cpu_s.append(cpu_s(way.proxy.process_id) - before if way.proxy else 0.0)
    way.timings += [timing for client in clients for timing in client.result()]
    for connection in connections:
        connection.close()


async def _client(
    case: Case, way: _Way, connection: StreamConnection, label: str, client: int
) -> list[Timing]:
    if case.tokens_a_s:
        await asyncio.sleep(START_SPREAD_S * client / case.clients)
    body = _request(case.tokens, case.tokens_a_s)
    return [
        await connection.ask(way.path(f"{label}-{number}"), body, case.tokens)
        for number in range(case.streams)
    ]


def _request(tokens: int, tokens_a_s: int) -> bytes:
    """As a harness sends it that asks for nothing but a stream."""
    messages = [{"role": "user", "content": "Count."}]
    key = f"stream:{tokens}:{tokens_a_s}"
    return dumped({"model": "mock", "messages": messages, "stream": True, "user": key})


def _delays(what: str, of: Callable[[_Way], float], direct: _Way, bare: _Way, live: _Way) -> Iterator[Figure]:
    """A delay without a proxy, and what each of the proxies adds to it."""
    direct_ms, bare_ms, live_ms = of(direct), of(bare), of(live)
    yield Figure(what=f"{what}, direct", value=direct_ms, unit="ms")
    yield Figure(what=f"{what}, added by bare mitmdump", value=bare_ms - direct_ms, unit="ms")
    yield Figure(what=f"{what}, added with Turnstile", value=live_ms - direct_ms, unit="ms")
    yield Figure(what=f"{what}, Turnstile against bare", value=live_ms - bare_ms, unit="ms")


def _first_token_ms(way: _Way) -> float:
    return median(timing.first_token_ms for timing in way.timings)


def _delay_ms(way: _Way) -> float:
    return median(delay for timing in way.timings for delay in timing.delays_ms)


def _delay_p99_ms(way: _Way) -> float:
    return quantiles((delay for timing in way.timings for delay in timing.delays_ms), n=100)[98]


def _costs(case: Case, bare_s: float, live_s: float) -> Iterator[Figure]:
    streams = case.streams_a_round
    yield from _cost_pair(case, bare_s / streams, live_s / streams, "CPU-ms a stream")
    if case is SHORT:  # what a stream costs before its chunks do
        return
    chunks = streams * case.tokens
    yield from _cost_pair(case, bare_s / chunks, live_s / chunks, "CPU-ms a chunk")
    yield Figure(
        what=f"{case.name}: ratio", value=live_s / bare_s, unit="x bare, a chunk", at_most=RATIO_AT_MOST
    )


def _cost_pair(case: Case, bare_s: float, live_s: float, unit: str) -> Iterator[Figure]:
    yield Figure(what=f"{case.name}: bare mitmdump", value=bare_s * 1000, unit=unit)
    yield Figure(what=f"{case.name}: with Turnstile", value=live_s * 1000, unit=unit)


if __name__ == "__main__":
    run_alone(__doc__, measure)
