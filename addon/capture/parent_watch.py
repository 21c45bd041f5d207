"""Ends mitmproxy when the program that started it is gone, however that ended.

The program holds the other end of mitmproxy's standard input, to which nobody writes: its end is that of the
program. It says so by the environment variable; without it nothing is watched.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from functools import cache

ENDS_WITH_STDIN = "TURNSTILE_ENDS_WITH_STDIN"
_STDIN = 0


def watch_parent(shut_down: Callable[[], object]) -> None:
    """Has `shut_down` called on this event loop once standard input ends, where that is wanted."""
    if os.environ.get(ENDS_WITH_STDIN) == "1":
        _start(asyncio.get_running_loop(), shut_down)


@cache
def _start(loop: asyncio.AbstractEventLoop, shut_down: Callable[[], object]) -> None:
    def wait() -> None:
        # not by sys.stdin: a thread that waits there has a lock which Python wants at its end
        while os.read(_STDIN, 1024):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(shut_down)

    threading.Thread(target=wait, name="turnstile parent watch", daemon=True).start()
