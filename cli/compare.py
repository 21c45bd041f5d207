"""`turnstile compile --policy compare`: one log under every policy."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnstile.cli.known_groups import tell_of_logs
from turnstile.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.compiler.model_folders import ModelFolders
    from turnstile.compiler.policy_comparison import Tally

_NOTE = (
    "repeated: context that an earlier sequence begins with. not seen: trained tokens whose context is not "
    "the prompt that they were sampled behind; there the trainer is told something that did not happen."
)


def compare(
    logs: tuple[Path, ...], groups: tuple[str, ...], folders: "ModelFolders", *, as_json: bool
) -> None:
    """Print what each policy makes of the logs."""
    from rich.console import Console

    from turnstile.compiler.pipeline import Options
    from turnstile.compiler.policy_comparison import policy_comparison
    from turnstile.compiler.replay import Replay

    options = Options(folders=folders)
    console = Console(stderr=True, highlight=False)
    with Replay(logs, groups) as replay:
        tell_of_logs(replay, groups)
        with progress_bar(replay, console) as progress:
            tallies = policy_comparison(replay, options, progress)
    if as_json:
        click.echo(json.dumps({name: tally.as_record() for name, tally in tallies.items()}))
        return
    Console().print(_table(tallies))
    console.print(_NOTE)


def _table(tallies: "dict[str, Tally]") -> "Table":
    from rich.table import Table

    table = Table("policy")
    for column in ("sequences", "trained", "context", "repeated", "not seen"):
        table.add_column(column, justify="right")
    for name, tally in tallies.items():
        numbers = (
            tally.sequences,
            tally.trained_tokens,
            tally.context_tokens,
            tally.repeated_tokens,
            tally.unseen_tokens,
        )
        table.add_row(name, *(f"{number:,}" for number in numbers))
    return table
