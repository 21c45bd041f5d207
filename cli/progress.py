"""A bar that shows how many exchanges have been read, on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from turnstile.compiler.pipeline import Progress
    from turnstile.compiler.replay import Replay


@contextmanager
def progress_bar(replay: "Replay", console: "Console") -> "Iterator[Progress]":
    """Shows how many exchanges have been read, on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("exchanges"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("exchanges", total=replay.exchanges)
        yield lambda exchanges: bar.advance(task, exchanges)
