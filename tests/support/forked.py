"""mitmproxy's programs as processes of their own, forked off one that has imported them, and the addon.

Importing all that takes a second of a core, more than most tests have to ask of the proxy. What a user types
is run as it is typed in the tests of the README, the demo and `turnstile.Proxy`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, TextIO

_IMPORTED = [
    "mitmproxy.tools.main",
    "mitmproxy.tools.dump",
    "turnstile.addon.capture",
    "tests.support.preloaded",
]


class Forked:
    """A running program; what its console says is in `stdout`."""

    def __init__(self, program: str, arguments: list[str], environment: dict[str, str]) -> None:
        reader, writer = multiprocessing.Pipe(duplex=False)
        self._process: ForkServerProcess = _context().Process(
            target=_run, args=(program, arguments, environment, Path.cwd(), writer), daemon=True
        )
        self._process.start()
        writer.close()
        self.stdout: TextIO = os.fdopen(os.dup(reader.fileno()), errors="replace")
        reader.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code

    def send_signal(self, which: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, which)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _run(
    program: str, arguments: list[str], environment: dict[str, str], cwd: Path, console: Connection
) -> None:
    os.dup2(console.fileno(), 1)
    os.dup2(1, 2)
    console.close()
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [program, *arguments]
    from mitmproxy.tools import main

    programs: dict[str, Any] = {"mitmdump": main.mitmdump, "mitmweb": main.mitmweb}
    sys.exit(programs[program]())
