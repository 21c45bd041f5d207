"""`turnstile compile`: trace logs to a file of training sequences."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnstile.cli.compare import compare
from turnstile.cli.errors import ExchangesLeftOut
from turnstile.cli.known_groups import tell_of_groups
from turnstile.cli.output_file import refuse_file
from turnstile.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.compiler.replay import Replay
    from turnstile.compiler.summary import Summary

_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command(
    epilog="""\b
Example:
  turnstile compile traces/ -o sequences.jsonl
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=_PATH)
@click.option("-o", "--output", metavar="OUT", type=_PATH, help="The file to write.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["jsonl", "msgpack", "parquet"]),
    help="Format of OUT, if its suffix (.jsonl, .tseq, .parquet) does not tell.",
)
@click.option(
    "--policy",
    type=click.Choice(["strict", "per-request", "realign-and-mask", "splice-at-end-of-turn", "compare"]),
    default="strict",
    show_default=True,
    help="strict: turns are merged by exact prefixes; per-request: each is a sequence; the next two also "
    "join what came back in other tokens; compare: prints a table of all four, without -o.",
)
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
@click.option(
    "--max-tokens", metavar="N", type=click.IntRange(min=1), help="Cut sequences of more than N tokens there."
)
@click.option(
    "--model", metavar="DIR", type=_FOLDER, help="The model's config.json, if the log has not got it."
)
@click.option("--tokenizer", metavar="DIR", type=_FOLDER, help="The tokenizer's files, likewise.")
@click.option(
    "--image-processor", metavar="DIR", type=_FOLDER, help="Also make tensors of images with this processor."
)
@click.option(
    "--max-image-pixels",
    metavar="N",
    type=click.IntRange(min=1),
    help="Leave out turns with larger images.  [default: 89478485]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Leave out sequences with routing_untrusted; exit with 4 when there is an error among the findings.",
)
@click.option(
    "--rewards",
    "rewards_file",
    metavar="FILE",
    type=_PATH,
    help="Rewards as JSON lines; they win over those in the logs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON to stdout.")
def command(
    logs: tuple[Path, ...],
    output: Path | None,
    format_name: str | None,
    policy: str,
    groups: tuple[str, ...],
    max_tokens: int | None,
    model: Path | None,
    tokenizer: Path | None,
    image_processor: Path | None,
    max_image_pixels: int | None,
    rewards_file: Path | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Turn trace logs into training sequences.

    LOG is a .tslog file or a directory of them. What was left out or is doubtful stands in
    OUT.findings.jsonl, one finding a line. The same logs give the same bytes.
    """
    from rich.console import Console

    from turnstile.compiler.errors import UnknownFormat
    from turnstile.compiler.export import format_named
    from turnstile.compiler.images.pixels import MAX_PIXELS
    from turnstile.compiler.model_folders import ModelFolders
    from turnstile.compiler.output import findings_path, write_compilation
    from turnstile.compiler.pipeline import Options
    from turnstile.compiler.replay import Replay
    from turnstile.compiler.reward_file import read_rewards
    from turnstile.compiler.selection import Selection

    folders = ModelFolders(model, tokenizer, image_processor, max_image_pixels or MAX_PIXELS)
    if policy == "compare":
        if output is not None or format_name or max_tokens or image_processor or rewards_file or strict:
            raise click.UsageError("--policy compare only prints a table: it takes no option for an output")
        compare(logs, groups, folders, as_json=as_json)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    try:
        format_ = format_named(format_name, output)
    except UnknownFormat as error:
        raise click.UsageError(str(error)) from error
    rewards = read_rewards(rewards_file) if rewards_file else {}
    options = Options(policy, Selection(max_tokens, trusted_only=strict), folders, rewards)
    console = Console(stderr=True, highlight=False)
    with Replay(logs, groups) as replay:
        _refuse(replay, output, groups, [*replay.logs, *([rewards_file] if rewards_file else [])])
        with progress_bar(replay, console) as progress:
            summary = write_compilation(replay, output, format_, options, progress)
    if as_json:
        click.echo(json.dumps(summary.as_record()))
    console.print(_table(summary))
    click.echo(f"written: {output} and {findings_path(output)}", err=True)
    if strict and summary.errors:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(summary.errors.items()))
        raise ExchangesLeftOut(f"something was left out ({kinds}); see {findings_path(output)}")


def _refuse(replay: "Replay", output: Path, groups: tuple[str, ...], inputs: Sequence[Path]) -> None:
    """Ends the command before anything is written over that should not be."""
    from turnstile.compiler.finding import FINDINGS_SUFFIX
    from turnstile.compiler.output import findings_path

    if output.name.endswith(FINDINGS_SUFFIX):
        raise click.UsageError(f"{output} has the name of a file of findings; name another file to write")
    if output.suffix == ".tslog":
        raise click.UsageError(f"{output} has the name of a trace log; name another file to write")
    for path in (output, findings_path(output)):
        refuse_file(path, inputs)
    tell_of_groups(replay, groups, "; nothing is written")


def _table(summary: "Summary") -> "Table":
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    left_out = (
        f", {summary.exchanges_left_out} of them left out in part or whole"
        if summary.exchanges_left_out
        else ""
    )
    table.add_row(f"{summary.groups:,}", "groups")
    table.add_row(f"{summary.exchanges:,}", f"exchanges{left_out}")
    table.add_row(f"{summary.turns:,}", "turns")
    table.add_row(f"{summary.sequences:,}", "sequences")
    table.add_row(f"{summary.trained_tokens:,}", "trained tokens")
    table.add_row(f"{summary.context_tokens:,}", "context tokens")
    for cause, count in sorted(summary.causes.items()):
        table.add_row(f"{count:,}", f"sequences that left another: {cause}")
    for kind, count in sorted(summary.errors.items()):
        table.add_row(f"{count:,}", f"[red]error[/red]: {kind}")
    for kind, count in sorted(summary.warnings.items()):
        table.add_row(f"{count:,}", f"[yellow]warning[/yellow]: {kind}")
    return table
