"""`turnstile doctor`: whether a server tells what capture needs."""

import json
from typing import TYPE_CHECKING

import click

from turnstile.cli.errors import CheckFailed

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.doctor import Report

_COLORS = {"ok": "green", "missing": "red", "off": "yellow", "unknown": "yellow"}


@click.command(
    epilog="""\b
Example:
  turnstile doctor http://127.0.0.1:30000
"""
)
@click.argument("url", metavar="URL")
@click.option(
    "--api-key", metavar="KEY", envvar="TURNSTILE_API_KEY", help="The server's key, else $TURNSTILE_API_KEY."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(url: str, api_key: str | None, as_json: bool) -> None:
    """Ask a server for what capture needs.

    URL is a backend, a router in front of some, or a Turnstile proxy that runs. A few requests of 4 tokens
    are sent to it. Says what is there, what is missing, and the flag or option that brings it. Ends with exit
    code 1 when a capture of it would be incomplete; what is `off` capture can do without.
    """
    from rich.console import Console

    from turnstile.doctor import examine

    if not _is_url(url):
        raise click.BadParameter("expected http://HOST:PORT", param_hint="'URL'")
    report = examine(url, api_key)
    if as_json:
        click.echo(json.dumps(report.as_record()))
    else:
        Console(highlight=False).print(_table(report))
    if not report.complete:
        missing = ", ".join(check.name for check in report.checks if check.status == "missing")
        raise CheckFailed(f"a capture of {url} would be incomplete: {missing}")


def _is_url(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        return False


def _table(report: "Report") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("what", "", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in report.checks:
        status = Text(check.status, _COLORS[check.status])
        table.add_row(Text(check.name), status, Text(check.found), Text(check.advice))
    return table
