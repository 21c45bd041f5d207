"""Opens trace logs of which some may be none: foreign, filled with zeros, cut off in their first bytes.

The other logs of a directory are worth reading all the same.
"""

from dataclasses import dataclass
from pathlib import Path

from turnstile.addon.tracelog.errors import LogCorruptError, LogFormatError, TraceLogError
from turnstile.addon.tracelog.frames import MAGIC
from turnstile.addon.tracelog.reader import LogReader, open_log


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why nothing of a log can be read."""

    kind: str  # of the finding: log_torn or log_corrupt
    offset: int
    reason: str
    error: TraceLogError  # to be raised where nothing else is there to read


def open_readable(path: Path) -> LogReader | Unreadable:
    """A reader of the log at `path`, or why it cannot be read.

    Raises LogFormatError for a log of a newer format and for a file that cannot be opened.
    """
    try:
        return open_log(path)
    except LogCorruptError as error:
        kind = "log_torn" if path.stat().st_size < len(MAGIC) else "log_corrupt"
        return Unreadable(kind, error.offset, error.reason, error)
    except LogFormatError as error:
        if (start := _start(path)) in (MAGIC, None):
            raise
        reason = f"the file is no trace log: it begins with {start!r}"
        return Unreadable("log_corrupt", 0, reason, error)


def _start(path: Path) -> bytes | None:
    """What a log has its magic in; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError:
        return None
