"""What capturing routed experts costs, by the values of turnstile_moe, against bare mitmdump.

Through the bare one the harness asks for them itself, so that the megabytes that pass between proxy and
backend are the same; with Turnstile they end there. Each round has sessions of its own, whose routing no log
has yet. Otherwise measured as in `capture`.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from figures import Figure, run_alone
from load import Connection, Request, cpu_s, peak_memory_mib, send
from processes import ADDON, Proxy, check_captured, mitmdump, mock_backend
from recording import CHAT_PATH, size_bytes
from workloads import ROUTED, calls

ROUNDS = 3
CLIENTS = ROUTED.sessions // ROUNDS
TURNS = CLIENTS * ROUTED.turns  # of a round
MODES = ("off", "full", "delta")  # of turnstile_moe
# Delta's is 6 ms where bare mitmdump takes 15.2 for all rows.
RATIO_AT_MOST = {"full": 1.4, "delta": 0.39}
MEMORY_MIB_AT_MOST = 400.0
BYTES_AT_MOST = {"full": 1.3, "delta": 1.1}  # an expert that a unique token is sent to


@dataclass(slots=True)
class _Way:
    """One of the proxies, and what was measured of it after each round."""

    name: str
    proxy: Proxy
    log: Path
    cpu_s: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)


def measure() -> list[Figure]:
    """The figures of all modes."""
    with ExitStack() as stack:
        backend = stack.enter_context(mock_backend(ROUTED))
        bare, *capturing = (_way(stack, backend, mode) for mode in (None, *MODES))
        for number in range(ROUNDS):
            for way in (bare, *capturing):
                asyncio.run(_round(way, number))
        for way in capturing:
            check_captured(way.proxy, ROUNDS * TURNS)
        return [*_figures(bare, dict(zip(MODES, capturing, strict=True)))]


def _way(stack: ExitStack, backend_port: int, mode: str | None) -> _Way:
    log = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    options = ("-s", str(ADDON), "--set", f"turnstile_log={log}", "--set", f"turnstile_moe={mode}")
    proxy = stack.enter_context(mitmdump(backend_port, *(options if mode else ())))
    return _Way(f"turnstile_moe={mode}" if mode else "bare mitmdump", proxy, log)


async def _round(way: _Way, number: int) -> None:
    """Sends the sessions of one round through the proxy, side by side."""
    connections = [await Connection.open(way.proxy.port) for _ in range(CLIENTS)]
    before = cpu_s(way.proxy.process_id)
    await send(connections, [_requests(way, number * CLIENTS + client) for client in range(CLIENTS)])
    way.cpu_s.append(cpu_s(way.proxy.process_id) - before)
    way.peak_mib.append(peak_memory_mib(way.proxy.process_id))
    for connection in connections:
        connection.close()


def _requests(way: _Way, session: int) -> Iterator[Request]:
    for call in calls(ROUTED, session):
        if way.proxy.captures:
            yield Request(f"/group/g-{session}{CHAT_PATH}", call.request, call.answer)
        else:
            asking = call.request[:-1] + b',"return_routed_experts":true}'
            yield Request(CHAT_PATH, asking, call.answer)


def _figures(bare: _Way, capturing: dict[str, _Way]) -> Iterator[Figure]:
    case = f"routed, {CLIENTS} clients"
    for way in (bare, *capturing.values()):
        value = min(way.cpu_s) / TURNS * 1000
        yield Figure(what=f"{case}: {way.name}", value=value, unit="CPU-ms a turn")
    for mode, at_most in RATIO_AT_MOST.items():
        way = capturing[mode]
        value = min(way.cpu_s) / min(bare.cpu_s)
        yield Figure(what=f"{case}: {way.name}, ratio", value=value, unit="x bare", at_most=at_most)
    for way in (bare, *capturing.values()):
        yield from _memory(way)
    for mode, at_most in BYTES_AT_MOST.items():
        yield _log_figure(capturing[mode], capturing["off"], at_most)


def _memory(way: _Way) -> Iterator[Figure]:
    first, last = way.peak_mib[0], way.peak_mib[-1]
    limit = MEMORY_MIB_AT_MOST if way.proxy.captures else None
    yield Figure(what=f"routed: peak memory, {way.name}", value=last, unit="MiB", at_most=limit)
    what = f"routed: peak memory, {way.name}, beyond that of the first round"
    yield Figure(what=what, value=last - first, unit="MiB")


def _log_figure(way: _Way, without: _Way, at_most: float) -> Figure:
    """Bytes of the log that are there for the routing alone."""
    assert ROUTED.experts is not None
    experts = ROUTED.unique_ids * ROUTED.experts.a_token
    value = (size_bytes(way.log) - size_bytes(without.log)) / experts
    what = f"routed: log as captured, {way.name}, beside the text"
    return Figure(what=what, value=value, unit="bytes an expert of a unique token", at_most=at_most)


if __name__ == "__main__":
    run_alone(__doc__, measure)
