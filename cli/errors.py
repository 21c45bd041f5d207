"""How a command ends when it cannot do what it was asked, and with which exit code.

    click.ClickException
    ├── click.UsageError      2   the command line is wrong (click's own)
    ├── CheckFailed           1   a check that the command was asked to make did not hold
    ├── InputInvalid          3   an input is unreadable or invalid
    └── ExchangesLeftOut      4   finished, and some exchanges were left out (with --strict)

Each prints `Error: ` and one line on stderr. The packages below know nothing of this: `as_cli_error`
says which of their errors are a user's to mend; any other is a bug and keeps its traceback.
"""

import errno

import click


class CheckFailed(click.ClickException):
    """A check did not hold; the message names the first one."""

    exit_code = 1


class InputInvalid(click.ClickException):
    """An input could not be read, or is not what it should be."""

    exit_code = 3


class ExchangesLeftOut(click.ClickException):
    """The output is written and whole, and not every exchange is in it."""

    exit_code = 4


def as_cli_error(error: Exception) -> click.ClickException | None:
    """Give the error as the command line says it; None when it is not the user's (click's own included)."""
    from turnstile.addon.tracelog.errors import TraceLogError
    from turnstile.compiler.errors import (
        InvariantBroken,
        NotInstalled,
        RewardFileError,
        SequenceFileError,
        UnusableFolder,
    )

    if isinstance(error, InvariantBroken):
        return CheckFailed(_one_line(str(error)))
    if isinstance(error, NotInstalled):
        return click.UsageError(str(error))
    if isinstance(error, TraceLogError | SequenceFileError | UnusableFolder | RewardFileError):
        return InputInvalid(_one_line(str(error)))
    # A closed pipe (`turnstile show LOG | head`) is no error: click ends the command quietly.
    if isinstance(error, OSError) and error.errno != errno.EPIPE:
        return InputInvalid(_one_line(_os_error_text(error)))
    return None


def _os_error_text(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"


def _one_line(message: str) -> str:
    return " ".join(message.split())
