"""`turnstile audit`: what a trainer that works from text would have got wrong."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnstile.cli.known_groups import tell_of_logs
from turnstile.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.compiler.audit import Audit, Example
    from turnstile.compiler.tokenizer import Tokenizer

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_ROWS = 3


@click.command(
    epilog="""\b
Example:
  turnstile audit traces/ --tokenizer Qwen3-1.7B/
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--tokenizer",
    "folder",
    metavar="DIR",
    type=_FOLDER,
    required=True,
    help="Folder of the model's tokenizer.json.",
)
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
@click.option(
    "--examples",
    metavar="N",
    type=click.IntRange(min=0),
    default=_ROWS,
    show_default=True,
    help="Show N answers of each kind.",
)
@click.option("--show-text", is_flag=True, help="Also show the text of the examples, a piece of an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def command(
    logs: tuple[Path, ...],
    folder: Path,
    groups: tuple[str, ...],
    examples: int,
    show_text: bool,
    as_json: bool,
) -> None:
    """Say what a trainer that works from text would have got wrong.

    LOG is a .tslog file or a directory of them. The ids of each answer are made text and encoded again, each
    answer by itself and with its marks written out. Told is how many come back otherwise, and how. Prompts
    are not compared: a chat template makes them of the messages, and no log holds one.
    """
    from rich.console import Console

    from turnstile.compiler.audit import audit
    from turnstile.compiler.model_folders import ModelFolders
    from turnstile.compiler.pipeline import Options
    from turnstile.compiler.replay import Replay
    from turnstile.compiler.tokenizer import tokenizer_in

    tokenizer = tokenizer_in(folder)
    options = Options(folders=ModelFolders(tokenizer=folder))
    with Replay(logs, groups) as replay:
        tell_of_logs(replay, groups)
        with progress_bar(replay, Console(stderr=True)) as progress:
            found = audit(replay, tokenizer, options, examples, progress)
    if found.foreign_id is not None:
        click.echo(f"Warning: {_foreign(found)}", err=True)
    if as_json:
        click.echo(json.dumps(_record(found, tokenizer if show_text else None)))
        return
    Console().print(_table(found))
    for example in found.examples:
        click.echo("\n".join(_lines(example, tokenizer if show_text else None)))


def _foreign(found: "Audit") -> str:
    return (
        f"id {found.foreign_id} is not in this tokenizer, or is spelled otherwise in the log; "
        f"{found.turns_not_compared:,} answers were not compared: name the folder of the model's own"
    )


def _table(found: "Audit") -> "Table":
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    turns, tokens = found.turns_differing, found.tokens_differing
    table.add_row(f"{found.turns:,}", "answers")
    table.add_row(f"{turns:,}", f"come back in other tokens ({_share(turns, found.turns)})")
    table.add_row(
        f"{tokens:,}", f"of {found.tokens:,} sampled tokens do not ({_share(tokens, found.tokens)})"
    )
    for kind, count in found.kinds.most_common():
        table.add_row(f"{count:,}", kind)
    table.add_row(f"{found.stops_lost:,}", "end with a stop token, which the text of a message does not hold")
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def _lines(example: "Example", tokenizer: "Tokenizer | None") -> list[str]:
    from turnstile.compiler.explain.spelled_ids import spelled

    turn, found = example.turn, example.found
    name = f"{found.kind}: choice {turn.choice} of {turn.exchange_id}, sampled id {found.start}"
    lines = [f"\n{name}", f"  sampled  {list(found.sampled_ids)}", f"  encoded  {list(found.encoded_ids)}"]
    if tokenizer is None:
        return lines
    for at, ids in ((1, found.sampled_ids), (2, found.encoded_ids)):
        lines[at] += "  " + "".join(f"[{piece}]" for piece in spelled(ids, tokenizer))
    return lines


def _record(found: "Audit", tokenizer: "Tokenizer | None") -> dict[str, Any]:
    from turnstile.compiler.explain.spelled_ids import spelled

    record = found.as_record()
    if tokenizer is None:
        return record
    for example in record["examples"]:
        example["text"] = {name: spelled(example[name], tokenizer) for name in ("sampled_ids", "encoded_ids")}
    return record
