"""`turnstile verify`: whether logs and compiled files are what they should be."""

from pathlib import Path

import click

from turnstile.cli.errors import CheckFailed, InputInvalid


@click.command(
    epilog="""\b
Example:
  turnstile verify traces/ sequences.jsonl
"""
)
@click.argument("paths", metavar="LOG_OR_OUT...", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(paths: tuple[Path, ...]) -> None:
    """Check every invariant of logs and of compiled files.

    LOG_OR_OUT is a .tslog file, a directory of them, or a file that `turnstile compile` wrote. Where logs and
    compiled files are named, every token that is said to be sampled is looked up in the logs; only so it is
    seen that one was sampled behind another prompt (context_not_seen). Ends with exit code 1 at the first
    thing that does not hold, and names it.
    """
    from turnstile.compiler.errors import InvariantBroken, SequenceFileError
    from turnstile.compiler.verify import verify

    try:
        verified = verify(paths)
    except InvariantBroken as error:
        raise CheckFailed(str(error)) from error
    except SequenceFileError as error:
        raise InputInvalid(str(error)) from error
    click.echo(
        f"all well: {verified.exchanges:,} exchanges in {verified.logs:,} logs, "
        f"{verified.sequences:,} sequences in {verified.files:,} files"
    )
