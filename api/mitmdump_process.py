"""A mitmdump with the addon as a child process: started, waited for, ended.

The proxy listens on 127.0.0.1 only. It runs the mitmdump of this Python environment, so that the addon
finds the packages that it needs.
"""

import json
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from turnstile.errors import ProxyError, ProxyStartError
from turnstile.free_port import free_port
from turnstile.lifelines import end, started
from turnstile.running_proxy import RunningProxy

START_S = 30.0  # until the proxy must answer
_POLL_S = 0.05
_OURS = "turnstile_"
_TRIES = 3  # another program may take the port that was free


@contextmanager
def running_proxy(
    backend_url: str, log: Path, options: Mapping[str, str] | None = None, port: int = 0
) -> Iterator[RunningProxy]:
    """A proxy in front of `backend_url` that records into `log`; ended when the context is left.

    `options` are mitmproxy options, the addon's among them; `port` 0 is a free one. The proxy ends with this
    process, too, whatever that one ends by. Raises ProxyStartError.
    """
    settings = {**(options or {}), "turnstile_log": str(log.resolve())}
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory(prefix="turnstile-") as confdir:
        _write_config(Path(confdir), settings)
        proxy, process = _started(backend_url, port, settings, Path(confdir), said)
        try:
            yield proxy
        finally:
            end(process)


def addon_path() -> Path:
    """Where turnstile_addon.py lies. Raises ProxyStartError when it is not installed."""
    spec = find_spec("turnstile_addon")
    if spec is None or spec.origin is None:
        raise ProxyStartError(
            "turnstile_addon.py is not installed beside turnstile: install turnstile-rl again"
        )
    return Path(spec.origin)


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    is_ipv6 = ":" in host
    with socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if is_ipv6:  # as mitmproxy listens: beside what listens on the same port by IPv4
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port))
        except OSError:
            return False
    return True


def _started(
    backend_url: str, port: int, settings: Mapping[str, str], confdir: Path, said: IO[bytes]
) -> tuple[RunningProxy, "subprocess.Popen[bytes]"]:
    for left in reversed(range(1 if port else _TRIES)):
        proxy_port = port or free_port()
        if not is_free(proxy_port):
            if not left:
                raise ProxyStartError(f"port {proxy_port} of 127.0.0.1 is taken: name another, or 0 for any")
            continue
        process = started(_command(backend_url, proxy_port, settings, confdir), output=said)
        proxy = RunningProxy(proxy_port, process.pid, secret=settings.get("turnstile_secret", ""))
        try:
            _wait_until_healthy(proxy, process, said, settings["turnstile_log"])
        except ProxyStartError:
            end(process)
            if not left or is_free(proxy_port):
                raise
        except BaseException:
            end(process)
            raise
        else:
            return proxy, process
    raise AssertionError("the last try returns or raises")


def _command(backend_url: str, port: int, settings: Mapping[str, str], confdir: Path) -> list[str]:
    command = [_mitmdump(), "-q", "-s", str(addon_path()), "--mode", f"reverse:{backend_url}"]
    command += ["--listen-host", "127.0.0.1", "-p", str(port), "--set", f"confdir={confdir}"]
    for name, value in settings.items():
        if not name.startswith(_OURS):
            command += ["--set", f"{name}={value}"]
    return command


def _write_config(confdir: Path, settings: Mapping[str, str]) -> None:
    """The addon's options stand in a file: a command line is for every user of the machine to read."""
    ours = {name: value for name, value in settings.items() if name.startswith(_OURS)}
    (confdir / "config.yaml").write_text(json.dumps(ours))


def _mitmdump() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "mitmdump"
    found = str(beside) if beside.exists() else shutil.which("mitmdump")
    if found is None:
        raise ProxyStartError(f"no mitmdump beside {sys.executable} or on PATH: install mitmproxy")
    return found


def _wait_until_healthy(
    proxy: RunningProxy, process: "subprocess.Popen[bytes]", said: IO[bytes], log: str
) -> None:
    until = time.monotonic() + START_S
    why = "nothing answered"
    while time.monotonic() < until:
        if process.poll() is not None:
            raise ProxyStartError(f"mitmdump ended with exit code {process.returncode}: {_last_words(said)}")
        try:
            if Path(proxy.health()["log"]["path"]).parent == Path(log):
                return
            why = "another proxy answers on its port"
        except ProxyError as error:
            why = str(error)
        time.sleep(_POLL_S)
    raise ProxyStartError(f"the proxy was not healthy within {START_S:.0f} s ({why}): {_last_words(said)}")


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    return " | ".join(said.read().decode(errors="replace").strip().splitlines()[-3:]) or "it said nothing"
