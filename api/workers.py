"""The processes of `turnstile proxy`: proxies on neighbouring ports that record into one directory.

A group's limit and counters live in one process, so all requests of a group go to the same one. `port_of` is
the rule; any other that keeps a group on one port does as well.
"""

import json
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from turnstile.errors import ProxyError, ProxyStartError
from turnstile.lifelines import end_all, started
from turnstile.mitmdump_process import START_S, is_free
from turnstile.running_proxy import RunningProxy

LAUNCHER = "turnstile.addon.capture.launcher"
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # where to ask what listens everywhere
_POLL_S = 0.05
_WATCH_S = 0.5


def port_of(group_id: str, first_port: int, workers: int) -> int:
    """The port of the worker that a group belongs to: by CRC-32 of its id, modulo the workers."""
    return first_port + zlib.crc32(group_id.encode()) % workers


class Workers:
    """Proxies that answer."""

    def __init__(
        self, proxies: Sequence[RunningProxy], children: Sequence["subprocess.Popen[bytes]"]
    ) -> None:
        self.proxies = proxies
        self._children = children

    def wait(self) -> None:
        """Returns never; raises ProxyError when one of them has ended."""
        while True:
            for proxy, child in zip(self.proxies, self._children, strict=True):
                if child.poll() is not None:
                    raise ProxyError(
                        f"the proxy at {proxy.address} ended with exit code {child.returncode}; all are ended"
                    )
            time.sleep(_WATCH_S)


@contextmanager
def running_workers(
    backend_url: str, log: Path, *, host: str, port: int, workers: int, options: Mapping[str, str]
) -> Iterator[Workers]:
    """Proxies at `port` and the ports behind it; ended in order when the context is left.

    `options` are mitmproxy's and the addon's. What the proxies say goes where this process says it. Raises
    ProxyStartError when one of them does not come up.
    """
    ports = range(port, port + workers)
    for each in ports:
        if not is_free(each, host):
            raise ProxyStartError(f"cannot listen on port {each} of {host}: it is taken, or not ours to take")
    children: list[subprocess.Popen[bytes]] = []
    secret = options.get("turnstile_secret", "")
    asked_at = _ANY.get(host, host)
    try:
        for each in ports:
            settings = {"mode": f"reverse:{backend_url}", "listen_host": host, "listen_port": str(each)}
            settings |= {"termlog_verbosity": "warn", **options, "turnstile_log": str(log)}
            environment = {"TURNSTILE_PROXY_OPTIONS": json.dumps(settings)}
            children.append(started([sys.executable, "-m", LAUNCHER], environment=environment))
        proxies = [
            RunningProxy(each, child.pid, asked_at, secret)
            for each, child in zip(ports, children, strict=True)
        ]
        _wait_until_healthy(proxies, children)
        yield Workers(proxies, children)
    finally:
        end_all(children)


def _wait_until_healthy(
    proxies: Sequence[RunningProxy], children: Sequence["subprocess.Popen[bytes]"]
) -> None:
    until = time.monotonic() + START_S
    for proxy, child in zip(proxies, children, strict=True):
        while True:
            if child.poll() is not None:
                raise ProxyStartError(f"the proxy at {proxy.address} did not start, see above")
            try:
                proxy.health()
                break
            except ProxyError as error:
                if time.monotonic() > until:
                    raise ProxyStartError(f"no healthy proxy within {START_S:.0f} s: {error}") from error
            time.sleep(_POLL_S)
