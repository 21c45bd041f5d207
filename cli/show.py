"""`turnstile show`: the exchanges in a log, one line each."""

import json
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnstile.cli.known_groups import offsets_in

if TYPE_CHECKING:
    from turnstile.addon.tracelog.reader import LogReader
    from turnstile.addon.tracelog.records import Summary

_COLORS = {"complete": "green", "refused": "yellow"}

_HEADER = "began          seconds number status outcome        request reply group/rollout"


@click.command(
    epilog="""\b
Example:
  turnstile show traces/ --group default
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(logs: tuple[Path, ...], groups: tuple[str, ...], as_json: bool) -> None:
    """List the exchanges in a log.

    LOG is a .tslog file or a directory of them. Exchanges come log by log, in the order in which they ended.
    Times are UTC; an exchange is shown by the number at the end of its id, --json has the whole; sizes are
    those of the two bodies in bytes.
    """
    from turnstile.addon.tracelog.reader import log_paths
    from turnstile.compiler.readable_logs import Unreadable, open_readable

    if not as_json:
        click.echo(_HEADER)
    seen: set[str] = set()
    unreadable = list[Unreadable]()
    paths = log_paths(logs)
    for path in paths:
        reader = open_readable(path)
        if isinstance(reader, Unreadable):
            unreadable.append(reader)
            click.echo(f"Warning: {path}: {reader.kind}: {reader.reason}", err=True)
            continue
        with reader:
            for summary in _summaries(reader, groups):
                seen.add(summary.group_id)
                click.echo(json.dumps(_record(summary, path)) if as_json else _line(summary))
            if reader.damage is not None:
                click.echo(f"Warning: {path}: {reader.damage.kind}: {reader.damage.message}", err=True)
    if len(unreadable) == len(paths):
        raise unreadable[0].error
    for group in sorted({*groups} - seen):
        click.echo(f"Warning: no exchange of group {group} is in these logs", err=True)
    if not seen and not groups:
        click.echo("Warning: no exchange is in these logs", err=True)


def _summaries(reader: "LogReader", groups: Collection[str]) -> "Iterator[Summary]":
    """Those that can be read; of the others it is said that they cannot."""
    from turnstile.addon.tracelog.errors import LogCorruptError

    for offset in offsets_in(reader, groups):
        try:
            yield reader.summary(offset)
        except LogCorruptError as error:
            click.echo(f"Warning: {error}", err=True)


def _record(summary: "Summary", log: Path) -> dict[str, Any]:
    return {
        "exchange_id": summary.exchange_id,
        "group_id": summary.group_id,
        "rollout_id": summary.rollout_id,
        "started_at": summary.started_at,
        "duration_s": summary.duration_s,
        "method": summary.method,
        "path": summary.path,
        "status": summary.status,
        "outcome": summary.outcome,
        "delivered": summary.delivered,
        "error": summary.error,
        "request_bytes": summary.request_bytes,
        "reply_bytes": summary.reply_bytes,
        "log": str(log),
        "offset": summary.offset,
    }


def _line(summary: "Summary") -> str:
    began = time.strftime("%m-%d %H:%M:%S", time.gmtime(summary.started_at))
    outcome = summary.outcome if summary.delivered or summary.outcome != "complete" else "undelivered"
    color = "red" if summary.status not in (200, None) else _COLORS.get(outcome, "red")
    whose = summary.group_id if summary.rollout_id is None else f"{summary.group_id}/{summary.rollout_id}"
    columns = (
        began,
        f"{summary.duration_s:7.2f}",
        f"{summary.exchange_id.rpartition('-')[2]:>6}",
        click.style(f"{'-' if summary.status is None else summary.status:>6} {outcome:<14}", fg=color),
        f"{_size(summary.request_bytes):>6}",
        f"{_size(summary.reply_bytes):>6}",
        whose if summary.path == "/v1/chat/completions" else f"{whose} {summary.path}",
    )
    return " ".join(columns)


def _size(size_bytes: int) -> str:
    """In at most six characters."""
    if size_bytes < 1000:
        return str(size_bytes)
    value, unit = (size_bytes / 1e3, "k") if size_bytes < 1e6 else (size_bytes / 1e6, "M")
    return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
