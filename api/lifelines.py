"""Child processes that end when this one does, even by kill -9.

A child's standard input is a pipe whose other end is held here alone: when this process is gone the child
reads its end. So a process that is forked off, a worker of multiprocessing say, lets go of it at once.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO
from weakref import WeakSet

STOP_S = 15.0  # for a child to end after it was asked to

_children: "WeakSet[subprocess.Popen[bytes]]" = WeakSet()


def started(
    command: Sequence[str], *, output: IO[bytes] | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """A child with the addon, which watches its standard input; it speaks into `output`, else where we do.

    Ctrl-C is for this process, which ends its children when it is done with them.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env={**os.environ, **(environment or {}), "TURNSTILE_ENDS_WITH_STDIN": "1"},
        start_new_session=True,
    )
    hold(child)
    return child


def hold(child: "subprocess.Popen[bytes]") -> None:
    """Keeps the child's lifeline, its standard input, in this process alone."""
    _children.add(child)


def end_all(children: Sequence["subprocess.Popen[bytes]"]) -> None:
    """As `end`, side by side."""
    for child in children:
        if child in _children and child.poll() is None:
            child.send_signal(signal.SIGTERM)
    for child in children:
        end(child)


def end(child: "subprocess.Popen[bytes]") -> None:
    """Has the child end in order, or kills it when it does not; only in the process that started it."""
    if child not in _children:
        return
    _children.discard(child)
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    if child.stdin is not None:
        child.stdin.close()


def _let_go() -> None:
    """In a process that was forked off: these children are another's."""
    for child in list(_children):
        if child.stdin is not None:
            child.stdin.close()
    _children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
