"""What capturing costs: mitmdump with the addon against bare mitmdump, over the same bytes.

Both proxies stand before one mock backend and are loaded in turn, round after round; the least of the rounds
counts, since a busy machine only ever adds. Each request is in a group of its own (a session of `growing` in
one), so that no log is the smaller for what an earlier round sent. Figures are CPU time of the mitmdump
process with all its threads, the log's writer among them; the log goes to the disk.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import capture_routed
from figures import Figure, run_alone
from load import Connection, Request, cpu_s, peak_memory_mib, send
from processes import ADDON, Proxy, check_captured, mitmdump, mock_backend
from recording import CHAT_PATH, size_bytes
from workloads import GROWING, LARGE, SMALL, Workload, calls

ROUNDS = 3
MEMORY_MIB_AT_MOST = 200.0


@dataclass(frozen=True, slots=True)
class Case:
    """A workload under a number of clients."""

    workload: Workload
    clients: int  # connections; of a workload with several sessions one each
    requests: int  # of all clients in a round
    ratio_at_most: float  # of CPU time with the addon to that without
    parts: int = 1  # a round is measured in so many parts, one after the other


CASES = (
    Case(SMALL, clients=16, requests=1_600, ratio_at_most=1.6),
    Case(LARGE, clients=4, requests=200, ratio_at_most=3.0),
    Case(GROWING, clients=32, requests=1_600, ratio_at_most=2.2, parts=4),
)


def measure() -> list[Figure]:
    """The figures of all cases."""
    return [*(figure for case in CASES for figure in _of_case(case)), *capture_routed.measure()]


def _of_case(case: Case) -> Iterator[Figure]:
    with (
        mock_backend(case.workload) as backend_port,
        tempfile.TemporaryDirectory() as log,
        mitmdump(backend_port) as bare,
        mitmdump(backend_port, "-s", str(ADDON), "--set", f"turnstile_log={log}") as capturing,
    ):
        rounds: dict[Proxy, list[list[float]]] = {bare: [], capturing: []}
        for number in range(ROUNDS):
            for proxy, measured in rounds.items():
                measured.append(asyncio.run(_cpu_of_parts(proxy, case, f"round-{number}")))
        check_captured(capturing, case.requests * ROUNDS)
        bare_s, capturing_s = (_least(measured) for measured in rounds.values())
        yield from _cost_figures(case, bare_s, capturing_s)
        yield from _memory_figures(case, bare, capturing)
        if case.workload.sessions > 1:
            yield _log_figure(case, size_bytes(Path(log)))


def _cost_figures(case: Case, bare_s: list[float], capturing_s: list[float]) -> Iterator[Figure]:
    name = f"{case.workload.name}, {case.clients} clients"
    yield from _compared(name, sum(bare_s), sum(capturing_s), case.requests, case.ratio_at_most)
    if case.parts > 1:
        for (first, end), one_s, other_s in zip(_turns_of_parts(case), bare_s, capturing_s, strict=True):
            name = f"{case.workload.name}, turns {first + 1} to {end}"
            yield from _compared(name, one_s, other_s, (end - first) * case.clients, case.ratio_at_most)


def _compared(
    name: str, bare_s: float, capturing_s: float, requests: int, at_most: float
) -> Iterator[Figure]:
    a_request = "CPU-ms a request"
    yield Figure(what=f"{name}: bare mitmdump", value=bare_s / requests * 1000, unit=a_request)
    yield Figure(what=f"{name}: with Turnstile", value=capturing_s / requests * 1000, unit=a_request)
    yield Figure(what=f"{name}: ratio", value=capturing_s / bare_s, unit="x bare", at_most=at_most)


def _memory_figures(case: Case, bare: Proxy, capturing: Proxy) -> Iterator[Figure]:
    name = f"{case.workload.name}: peak memory"
    bare_mib, capturing_mib = peak_memory_mib(bare.process_id), peak_memory_mib(capturing.process_id)
    yield Figure(what=f"{name}, bare mitmdump", value=bare_mib, unit="MiB")
    yield Figure(what=f"{name}, with Turnstile", value=capturing_mib, unit="MiB", at_most=MEMORY_MIB_AT_MOST)


def _log_figure(case: Case, size: int) -> Figure:
    value = size / (case.workload.unique_ids * ROUNDS)
    return Figure(what=f"{case.workload.name}: log as captured", value=value, unit="bytes a unique token")


def _least(rounds: list[list[float]]) -> list[float]:
    """The least of all rounds, part by part."""
    return [min(part) for part in zip(*rounds, strict=True)]


async def _cpu_of_parts(proxy: Proxy, case: Case, label: str) -> list[float]:
    """CPU seconds that the proxy took for each part of a round."""
    connections = [await Connection.open(proxy.port) for _ in range(case.clients)]
    queues = [list(_requests(proxy, case, client, label)) for client in range(case.clients)]
    spent = []
    for start, end in _turns_of_parts(case):
        before = cpu_s(proxy.process_id)
        await send(connections, [queue[start:end] for queue in queues])
        spent.append(cpu_s(proxy.process_id) - before)
    for connection in connections:
        connection.close()
    return spent


def _turns_of_parts(case: Case) -> list[tuple[int, int]]:
    """Which of its requests each client sends in each part: [start, end)."""
    each = case.requests // case.clients
    return list(pairwise(each * part // case.parts for part in range(case.parts + 1)))


def _requests(proxy: Proxy, case: Case, client: int, label: str) -> Iterator[Request]:
    """What one client sends in a round."""
    if case.workload.sessions > 1:
        for call in calls(case.workload, client):
            yield Request(_path(proxy, f"{label}-{client}"), call.request, call.answer)
    else:
        call = next(calls(case.workload, 0))
        for number in range(case.requests // case.clients):
            yield Request(_path(proxy, f"{label}-{client}-{number}"), call.request, call.answer)


def _path(proxy: Proxy, group_id: str) -> str:
    return f"/group/{group_id}{CHAT_PATH}" if proxy.captures else CHAT_PATH


if __name__ == "__main__":
    run_alone(__doc__, measure)
