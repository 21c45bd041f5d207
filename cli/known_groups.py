"""Groups that a user names in logs: where they lie, and what is said of damage and of those not there."""

from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from turnstile.cli.errors import InputInvalid

if TYPE_CHECKING:
    from turnstile.addon.tracelog.reader import LogReader
    from turnstile.compiler.replay import Replay


def tell_of_logs(replay: "Replay", groups: Collection[str]) -> None:
    """Warns of what cannot be read and of groups that are not there; raises when no group is."""
    for finding in replay.findings:
        click.echo(f"Warning: {finding.log}: {finding.kind}: {finding.message}", err=True)
    tell_of_groups(replay, groups)


def tell_of_groups(replay: "Replay", groups: Collection[str], consequence: str = "") -> None:
    """Warns of groups that are not there; raises when none is, and says the `consequence`."""
    if groups and not replay.groups:
        raise InputInvalid(f"no exchange of group {' or '.join(groups)} is in these logs{consequence}")
    for group in sorted({*groups} - {*replay.groups}):
        click.echo(f"Warning: no exchange of group {group} is in these logs", err=True)


def offsets_in(reader: "LogReader", groups: Collection[str]) -> list[int]:
    """Where the exchanges of these groups lie in a log, in file order; those of all when none is named."""
    if not groups:
        return reader.offsets()
    return sorted(offset for group in {*groups} for offset in reader.offsets(group))
