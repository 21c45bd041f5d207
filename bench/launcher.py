"""What `turnstile proxy` saves: the addon in it against the same addon in mitmdump, over the same bytes.

Both stand before one mock backend and are loaded in turn; the least of the rounds counts. Figures are CPU
time of the proxy's process with all its threads.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from capture import ADDON, Case, check_captured
from figures import Figure, run_alone
from load import Connection, Request, cpu_s, send
from processes import Proxy, _free_port, _wait_until_listening, mitmdump, mock_backend
from recording import CHAT_PATH
from workloads import LARGE, SMALL, calls

ROUNDS = 3
CASES = (
    Case(SMALL, clients=16, requests=800, ratio_at_most=0.9),
    Case(LARGE, clients=4, requests=60, ratio_at_most=1.0),
)


def measure() -> list[Figure]:
    """The figures of all cases."""
    return [figure for case in CASES for figure in _of_case(case)]


def _of_case(case: Case) -> Iterator[Figure]:
    with (
        mock_backend(case.workload) as backend_port,
        tempfile.TemporaryDirectory() as logs,
        mitmdump(backend_port, "-s", str(ADDON), "--set", f"turnstile_log={logs}/a") as whole,
        _lean(backend_port, f"{logs}/b") as lean,
    ):
        rounds: dict[Proxy, list[float]] = {whole: [], lean: []}
        for number in range(ROUNDS):
            for proxy, measured in rounds.items():
                measured.append(asyncio.run(_cpu(proxy, case, number)))
        for proxy in rounds:
            check_captured(proxy, case.requests * ROUNDS)
    whole_s, lean_s = (min(measured) for measured in rounds.values())
    name, unit = f"{case.workload.name}, {case.clients} clients", "CPU-ms a request"
    yield Figure(what=f"{name}: in mitmdump", value=whole_s / case.requests * 1000, unit=unit)
    yield Figure(what=f"{name}: turnstile proxy", value=lean_s / case.requests * 1000, unit=unit)
    yield Figure(what=f"{name}: ratio", value=lean_s / whole_s, unit="x mitmdump", at_most=case.ratio_at_most)


@contextmanager
def _lean(backend_port: int, log: str) -> Iterator[Proxy]:
    port = _free_port()
    with tempfile.TemporaryDirectory() as confdir:
        options = {"mode": f"reverse:http://127.0.0.1:{backend_port}", "listen_host": "127.0.0.1"}
        options |= {"listen_port": str(port), "confdir": confdir, "turnstile_log": log}
        options |= {"termlog_verbosity": "error"}
        environment = {**os.environ, "TURNSTILE_PROXY_OPTIONS": json.dumps(options)}
        command = [sys.executable, "-m", "turnstile.addon.capture.launcher"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment) as process:
            try:
                _wait_until_listening(process, port)
                yield Proxy(port, process.pid, captures=True)
            finally:
                process.terminate()


async def _cpu(proxy: Proxy, case: Case, number: int) -> float:
    """CPU seconds that the proxy took for a round."""
    connections = [await Connection.open(proxy.port) for _ in range(case.clients)]
    call = next(calls(case.workload, 0))
    queues = [
        [
            Request(f"/group/{number}-{client}-{each}{CHAT_PATH}", call.request, call.answer)
            for each in range(case.requests // case.clients)
        ]
        for client in range(case.clients)
    ]
    before = cpu_s(proxy.process_id)
    await send(connections, queues)
    spent = cpu_s(proxy.process_id) - before
    for connection in connections:
        connection.close()
    return spent


if __name__ == "__main__":
    run_alone(__doc__, measure)
