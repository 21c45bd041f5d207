"""What can go wrong with a trace log.

TraceLogError
├── LogWriteError      a record could not be put into the log (disk full, no directory, ...)
├── LogFormatError     a file is no trace log, or one of a newer format
└── LogCorruptError    a record is damaged; the ones before it are still good
"""

from pathlib import Path


class TraceLogError(Exception):
    """Anything about a trace log."""


class LogWriteError(TraceLogError):
    """A record could not be written; nothing half written stays in the log."""


class LogFormatError(TraceLogError):
    """A path holds no trace log that this version reads."""


class LogCorruptError(TraceLogError):
    """The record at `offset` (bytes from the start of `path`) is damaged, or rests on a damaged one."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path}: record at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason
