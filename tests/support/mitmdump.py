"""The real mitmdump with the addon, as a process on a free loopback port."""

import atexit
import contextlib
import http.client
import json
import os
import queue
import re
import resource
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.forked import Forked
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Exchange, WeightReading

SCRIPT = Path(__file__).resolve().parents[2] / "turnstile_addon.py"
START_S = 30.0
STOP_S = 20.0
_SHORT_KEY = 1024  # bits: enough where nothing speaks TLS, and read by every start in a sixth of the time


@dataclass
class Proxy:
    """A running mitmdump; `lines` holds what its console said so far."""

    process: Forked
    log_directory: Path
    lines: list[str] = field(default_factory=list)
    port: int = 0
    _said: "queue.Queue[str | None]" = field(default_factory=queue.Queue)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """The first line of the console that matches; fails when the process ends without it."""
        for line in self.lines:
            if match := re.search(pattern, line):
                return match
        while (said := self._said.get(timeout=START_S)) is not None:
            self.lines.append(said)
            if match := re.search(pattern, said):
                return match
        raise AssertionError(f"mitmdump ended without saying {pattern!r}: {self.lines}")

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> "Answered":
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answered(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def health(self) -> Any:
        return self.ask("GET", "/turnstile/health").json

    def exchanges(self, group_id: str | None = None) -> list[Exchange]:
        """What the logs hold once all that was captured is in them."""
        assert self.ask("POST", "/turnstile/flush").status == 200
        return self.logged(group_id)

    def exchange(self, group_id: str) -> Exchange:
        """The one exchange of a group."""
        (found,) = self.exchanges(group_id)
        return found

    def logged(self, group_id: str | None = None) -> list[Exchange]:
        """What the logs hold now; they may not be damaged."""
        found = []
        for path in log_paths([self.log_directory]):
            with open_log(path) as log:
                found += [exchange for _, exchange in log.exchanges(group_id)]
                assert log.damage is None
        return found

    def weight_readings(self) -> list[WeightReading]:
        """What the logs hold of the weights once all streams that have ended are followed by a reading."""
        assert self.ask("POST", "/turnstile/flush").status == 200
        found = []
        for path in log_paths([self.log_directory]):
            with open_log(path) as log:
                found += list(log.weight_readings())
        return found

    def log_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in log_paths([self.log_directory]))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends the process and returns its exit code; `lines` then holds all it said."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(STOP_S)
        while (line := self._said.get(timeout=STOP_S)) is not None:
            self.lines.append(line)
        self._said.put(None)
        return code

    def read_console(self) -> None:
        """In a thread."""
        with self.process.stdout:
            for line in self.process.stdout:
                self._said.put(line.rstrip("\n"))
        self._said.put(None)


@contextlib.contextmanager
def full_disk(proxy: Proxy) -> Iterator[None]:
    """No file of the proxy may grow: writes fail as on a full disk."""
    limits = resource.prlimit(proxy.process.pid, resource.RLIMIT_FSIZE)
    size = sum(path.stat().st_size for path in log_paths([proxy.log_directory]))
    resource.prlimit(proxy.process.pid, resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(proxy.process.pid, resource.RLIMIT_FSIZE, limits)


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextlib.contextmanager
def running_mitmdump(
    backend_url: str,
    log_directory: Path,
    *arguments: str,
    script: Path = SCRIPT,
    program: str = "mitmdump",
    key_bits: int = _SHORT_KEY,
    **options: str,
) -> Iterator[Proxy]:
    """A proxy that captures; `options` are the addon's, without their `turnstile_`."""
    mode = ("--mode", f"reverse:{backend_url}", "--listen-host", "127.0.0.1", "-p", "0")
    ours = {"log": str(log_directory), **options}
    settings = [part for name, value in ours.items() for part in ("--set", f"turnstile_{name}={value}")]
    with started_mitmdump(
        "-s",
        str(script),
        *mode,
        *settings,
        *arguments,
        log_directory=log_directory,
        program=program,
        key_bits=key_bits,
    ) as proxy:
        proxy.port = int(proxy.wait_for_line(r"listening at [^ ]*:(\d+)\.")[1])
        proxy.wait_for_line("turnstile: recording into")
        yield proxy


@contextlib.contextmanager
def started_mitmdump(
    *arguments: str, log_directory: Path, program: str = "mitmdump", key_bits: int = _SHORT_KEY
) -> Iterator[Proxy]:
    """mitmdump with these arguments, whatever becomes of it; or mitmweb."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
    keys = ["--set", f"confdir={_confdir(key_bits)}", "--set", f"key_size={key_bits}"]
    process = Forked(program, [*keys, *arguments], environment)
    proxy = Proxy(process, log_directory)
    reader = threading.Thread(target=proxy.read_console)
    reader.start()
    try:
        yield proxy
    finally:
        proxy.stop(signal.SIGKILL)
        reader.join()


@cache
def _confdir(key_bits: int) -> str:
    """One for all processes with such keys: making its certificates takes a second."""
    path = tempfile.mkdtemp(prefix="turnstile-test-conf-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
