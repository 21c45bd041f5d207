"""A mitmdump with the addon as a child process: started, waited for, ended.

The proxy listens on 127.0.0.1 only. It runs the mitmdump of this Python environment, so that the addon
finds the packages that it needs.
"""

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from turnstile.free_port import free_port

START_S = 30.0  # until the proxy must answer
STOP_S = 15.0  # for mitmdump to end after SIGTERM
_POLL_S = 0.05

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a user's own proxy


class ProxyStartError(Exception):
    """The proxy did not come up; the message has mitmdump's last words."""


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that answers."""

    port: int
    process_id: int

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def health(self) -> dict[str, Any]:
        """What GET /turnstile/health says. Raises OSError when it is not healthy."""
        return self._asked("GET", "/turnstile/health")

    def flush(self) -> None:
        """Returns when all that was captured so far is readable in the log. Raises OSError when it is not."""
        self._asked("POST", "/turnstile/flush")

    def _asked(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        with _direct.open(request, timeout=START_S) as answer:
            fields: dict[str, Any] = json.load(answer)
        return fields


@contextmanager
def running_proxy(
    backend_url: str, log: Path, options: Mapping[str, str] | None = None
) -> Iterator[RunningProxy]:
    """A proxy in front of `backend_url` that records into `log`; ended when the context is left.

    `options` are mitmproxy options, the addon's among them. Raises ProxyStartError.
    """
    port = free_port()
    settings = {"turnstile_log": str(log), **(options or {})}
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory(prefix="turnstile-") as confdir:
        process = subprocess.Popen(
            _command(backend_url, port, settings, Path(confdir)),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            proxy = RunningProxy(port, process.pid)
            _wait_until_healthy(proxy, process, said)
            yield proxy
        finally:
            _end(process)


def addon_path() -> Path:
    """Where turnstile_addon.py lies. Raises ProxyStartError when it is not installed."""
    spec = find_spec("turnstile_addon")
    if spec is None or spec.origin is None:
        raise ProxyStartError(
            "turnstile_addon.py is not installed beside turnstile: install turnstile-rl again"
        )
    return Path(spec.origin)


def _command(backend_url: str, port: int, settings: Mapping[str, str], confdir: Path) -> list[str]:
    command = [_mitmdump(), "-q", "-s", str(addon_path()), "--mode", f"reverse:{backend_url}"]
    command += ["--listen-host", "127.0.0.1", "-p", str(port), "--set", f"confdir={confdir}"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def _mitmdump() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "mitmdump"
    found = str(beside) if beside.exists() else shutil.which("mitmdump")
    if found is None:
        raise ProxyStartError(f"no mitmdump beside {sys.executable} or on PATH: install mitmproxy")
    return found


def _wait_until_healthy(proxy: RunningProxy, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    until = time.monotonic() + START_S
    why = "nothing answered"
    while time.monotonic() < until:
        if process.poll() is not None:
            raise ProxyStartError(f"mitmdump ended with exit code {process.returncode}: {_last_words(said)}")
        try:
            proxy.health()
            return
        except (OSError, ValueError) as error:
            why = str(error)
        time.sleep(_POLL_S)
    raise ProxyStartError(f"the proxy was not healthy within {START_S:.0f} s ({why}): {_last_words(said)}")


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    return " | ".join(said.read().decode(errors="replace").strip().splitlines()[-3:]) or "it said nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
