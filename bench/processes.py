"""The processes of a measurement: a mock backend, and mitmdumps before it; each ends with its context."""

import json
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads import Workload

ADDON = Path(__file__).resolve().parents[1] / "turnstile_addon.py"
START_S = 60.0
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Proxy:
    """A mitmdump that answers."""

    port: int
    process_id: int
    captures: bool


@contextmanager
def mock_backend(*workloads: Workload) -> Iterator[int]:
    """The port of a mock backend with the workloads' replies; it streams without any."""
    command = [sys.executable, str(_HERE / "mock_backend.py"), *(each.name for each in workloads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said, _, port = process.stdout.readline().partition(" ")
            if said != "listening":
                raise RuntimeError(f"the mock backend did not start: {said!r}")
            yield int(port)
        finally:
            process.terminate()


@contextmanager
def mitmdump(backend_port: int, *arguments: str) -> Iterator[Proxy]:
    """A mitmdump before the backend; `arguments` bring in the addon."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as confdir:
        command = [str(Path(sysconfig.get_path("scripts")) / "mitmdump"), "-q", *arguments]
        command += ["--mode", f"reverse:http://127.0.0.1:{backend_port}", "--listen-host", "127.0.0.1"]
        command += ["-p", str(port), "--set", f"confdir={confdir}"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            try:
                _wait_until_listening(process, port)
                yield Proxy(port, process.pid, captures=_has_log(arguments))
            finally:
                process.terminate()


def check_captured(proxy: Proxy, expected: int) -> None:
    """Raises RuntimeError unless the proxy says that it recorded everything whole."""
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever the environment says
    with directly.open(f"http://127.0.0.1:{proxy.port}/turnstile/health") as answer:
        counters = json.load(answer)["capture"]
    if counters["outcomes"] != {"complete": expected} or counters["incomplete"] or counters["write_errors"]:
        raise RuntimeError(f"{expected} exchanges were sent, but the proxy counted {counters}")


def _has_log(arguments: Sequence[str]) -> bool:
    return any(argument.startswith("turnstile_log=") for argument in arguments)


def _free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port: int = any_socket.getsockname()[1]
        return port


def _wait_until_listening(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"mitmdump does not listen on port {port} (exit code {process.poll()})")
