"""A browser driven by the DevTools protocol over a pipe.

The pipe, file descriptors 3 and 4 of the browser, carries JSON messages that end in a NUL: there is no port
to find, no WebSocket, and nothing beyond the standard library.
"""

import fcntl
import json
import os
import select
import signal
from collections.abc import Callable
from typing import Any

ANSWER_S = 60.0

JSON = dict[str, Any]
Note = Callable[[JSON], None]


def _pass_over(event: JSON) -> None:
    """What an event nobody listens for gets."""


class TargetNavigated(RuntimeError):
    """The page that was asked gave way to another."""


class DevTools:
    """The browser's process and its two pipes."""

    def __init__(self, command: list[str]) -> None:
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        # Out of the way of 3 and 4, which they become in the browser.
        theirs = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (read_there, write_there)]
        self.pid = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs[0], 3),
                (os.POSIX_SPAWN_DUP2, theirs[1], 4),
                (os.POSIX_SPAWN_CLOSE, theirs[0]),
                (os.POSIX_SPAWN_CLOSE, theirs[1]),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
        for descriptor in (read_there, write_there, *theirs):
            os.close(descriptor)
        self._read, self._write = read_here, write_here
        self._number, self._rest = 0, b""

    def call(
        self, method: str, parameters: JSON, session: str | None = None, note: Note = _pass_over
    ) -> JSON:
        """A command and its answer; `note` is told of the events of the session that come before it.

        Raises RuntimeError when the browser refuses, TimeoutError and EOFError when it does not answer.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while (answer := self.listen(session, note)).get("id") != self._number:
            pass
        if "error" in answer:
            reason = answer["error"]["message"]
            raise (TargetNavigated if "navigated" in reason else RuntimeError)(f"{method}: {reason}")
        result: JSON = answer["result"]
        return result

    def listen(self, session: str | None, note: Note) -> JSON:
        """The next message; `note` is told of it if it is an event of the session. Raises as `call` does."""
        message = self._next_message()
        if message.get("sessionId") == session and "method" in message:
            note(message)
        return message

    def _next_message(self) -> JSON:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], ANSWER_S)[0]:
                raise TimeoutError(f"the browser said nothing for {ANSWER_S:.0f} s")
            if not (data := os.read(self._read, 1 << 20)):
                raise EOFError("the browser has ended")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: JSON = json.loads(message)
        return decoded

    def end(self) -> None:
        """Ends the browser with all processes that it started."""
        os.close(self._read)
        os.close(self._write)
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
