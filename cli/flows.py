"""`turnstile flows`: a log as a file of flows, to be looked at in mitmproxy's own interfaces."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnstile.cli.errors import InputInvalid
from turnstile.cli.known_groups import offsets_in
from turnstile.cli.output_file import refuse_file

if TYPE_CHECKING:
    from turnstile.addon.tracelog.reader import LogReader
    from turnstile.addon.tracelog.records import Exchange
    from turnstile.compiler.standing import Standing

_PATH = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Example:
  turnstile flows traces/ -o trace.mitm
  mitmweb -n -r trace.mitm -s "$(turnstile addon-path)"
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=_PATH)
@click.option("-o", "--output", metavar="OUT", required=True, type=_PATH, help="The file to write.")
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
def command(logs: tuple[Path, ...], output: Path, groups: tuple[str, ...]) -> None:
    """Make flows of a log, for mitmweb.

    LOG is a .tslog file or a directory of them. Each exchange becomes a flow with the request that the
    backend got and the reply that it sent; the addon's view `Turnstile` shows what they say and the tokens.
    The log is compiled on the way: comments and marks tell turns, splits and findings.
    """
    from turnstile.addon.capture.log_flows import write_flows
    from turnstile.addon.tracelog.reader import log_paths
    from turnstile.compiler.output import whole_or_not_at_all

    paths = log_paths(logs)
    if output.suffix == ".tslog":
        raise click.UsageError(f"{output} has the name of a trace log; name another file to write")
    refuse_file(output, paths)
    exchanges = _exchanges(paths, groups)
    first = next(exchanges, None)
    if first is None:
        whose = f" of group {' or '.join(groups)}" if groups else ""
        raise InputInvalid(f"no exchange{whose} can be read in these logs; nothing is written")
    standings = _standings(paths, groups)
    with whole_or_not_at_all(output) as unfinished, unfinished.open("wb") as file:
        count = write_flows(file, chain((first,), exchanges), standings)
    click.echo(f"written: {output}, {count:,} flows", err=True)


def _standings(paths: Sequence[Path], groups: Sequence[str]) -> "Mapping[str, Standing]":
    from rich.console import Console

    from turnstile.cli.progress import progress_bar
    from turnstile.compiler.replay import Replay
    from turnstile.compiler.standing import standings_of

    with Replay(paths, groups) as replay, progress_bar(replay, Console(stderr=True)) as progress:
        return standings_of(replay, progress)


def _exchanges(paths: Sequence[Path], groups: Sequence[str]) -> "Iterator[tuple[Path, Exchange]]":
    """Those that can be read, log by log; of the others it is said that they cannot."""
    from turnstile.compiler.readable_logs import Unreadable, open_readable

    for path in paths:
        reader = open_readable(path)
        if isinstance(reader, Unreadable):
            click.echo(f"Warning: {path}: {reader.kind}: {reader.reason}", err=True)
            continue
        with reader:
            for exchange in _readable(reader, groups):
                yield path.resolve(), exchange  # for mitmweb, wherever it is started
            if reader.damage is not None:
                click.echo(f"Warning: {path}: {reader.damage.kind}: {reader.damage.message}", err=True)


def _readable(reader: "LogReader", groups: Sequence[str]) -> "Iterator[Exchange]":
    from turnstile.addon.tracelog.errors import LogCorruptError

    for offset in offsets_in(reader, groups):
        try:
            exchange = reader.exchange(offset)
        except LogCorruptError as error:
            click.echo(f"Warning: {error}", err=True)
        else:
            yield exchange
