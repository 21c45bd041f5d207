"""`turnstile explain`: why rollouts split into several sequences."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnstile.cli.known_groups import tell_of_logs

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.compiler.explain.split import Side, Split
    from turnstile.compiler.explain.token_texts import TokenTexts

_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_ROWS = 3


@click.command(
    epilog="""\b
Example:
  turnstile explain traces/ --tokenizer Qwen3-1.7B/
"""
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=_PATH)
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
@click.option(
    "--tokenizer",
    "tokenizer_folder",
    metavar="DIR",
    type=_FOLDER,
    help="Folder of a tokenizer.json: also shows the text around a split, a piece of a prompt.",
)
@click.option(
    "--model", metavar="DIR", type=_FOLDER, help="The model's config.json, if the log has not got it."
)
@click.option(
    "--examples",
    "limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=_ROWS,
    show_default=True,
    help="Show N splits of each kind.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every split as one JSON object a line.")
def command(
    logs: tuple[Path, ...],
    groups: tuple[str, ...],
    tokenizer_folder: Path | None,
    model: Path | None,
    limit: int,
    as_json: bool,
) -> None:
    """Say why rollouts split: why a turn went on no earlier sequence.

    LOG is a .tslog file or a directory of them. Each kind of split has its count and its cost: `tokens again`
    is context that an earlier sequence begins with, and that a trainer computes once more. Of single splits
    is shown where they left an earlier sequence, what shows the kind, and the ids on both sides of the first
    difference. A kind is a fact that can be shown, else it is unknown. No text is shown unless a tokenizer
    is named. The kinds, and what to do about each: README, "Why did it split?".
    """
    from turnstile.compiler.explain.checked_tokenizer import CheckedTokenizer
    from turnstile.compiler.explain.splits import splits_of
    from turnstile.compiler.model_folders import ModelFolders
    from turnstile.compiler.pipeline import Options
    from turnstile.compiler.replay import Replay
    from turnstile.compiler.tokenizer import tokenizer_in

    tokenizer = CheckedTokenizer(tokenizer_in(tokenizer_folder)) if tokenizer_folder is not None else None
    with Replay(logs, groups) as replay:
        tell_of_logs(replay, groups)
        splits = splits_of(replay, Options(folders=ModelFolders(model, tokenizer_folder)), tokenizer)
        if as_json:
            for split in splits:
                click.echo(json.dumps(_record(split, tokenizer)))
        else:
            _print(splits, tokenizer, limit)
    if tokenizer is not None and tokenizer.doubt:
        click.echo(f"Warning: {tokenizer.doubt}; name the folder of the model's own", err=True)


def _print(splits: "Iterable[Split]", tokenizer: "TokenTexts | None", limit: int) -> None:
    from rich.console import Console

    count, repeated = Counter[str](), Counter[str]()
    examples: defaultdict[str, list[Split]] = defaultdict(list)
    for split in splits:
        count[split.kind] += 1
        repeated[split.kind] += split.repeated_tokens
        if len(examples[split.kind]) < limit:
            examples[split.kind].append(split)
    if not count:
        click.echo("no split: each turn goes on an earlier one, or is the first")
        return
    Console().print(_table(count, repeated))
    for kind, _ in repeated.most_common():
        for split in examples[kind]:
            click.echo("\n" + "\n".join(_lines(split, tokenizer)))


def _table(count: Counter[str], repeated: Counter[str]) -> "Table":
    from rich.table import Table

    from turnstile.compiler.explain.kind import MEANINGS

    table = Table(title="Why sequences were started", title_justify="left")
    table.add_column("kind")
    table.add_column("splits", justify="right")
    table.add_column("tokens again", justify="right")
    table.add_column("what it is")
    for kind, tokens in repeated.most_common():
        table.add_row(kind, f"{count[kind]:,}", f"{tokens:,}", MEANINGS[kind])
    return table


def _lines(split: "Split", tokenizer: "TokenTexts | None") -> list[str]:
    whose = split.group_id if split.rollout_id is None else f"{split.group_id}/{split.rollout_id}"
    left = f"left {split.parent_id or 'nothing'}"
    lines = [
        f"{click.style(split.kind, bold=True)}: {split.sequence_id} of {whose} {left} at token "
        f"{split.shared_tokens:,}; {split.repeated_tokens:,} tokens again",
        f"  {split.fact}",
    ]
    for name, side in (("earlier turn", split.earlier), ("this prompt", split.later)):
        if side is not None:
            lines.append(f"  {name:<12}  {_ids(side)}")
            lines += [f"  {'':<12}  {_text(side, tokenizer)}"] if tokenizer is not None else []
    return lines


def _ids(side: "Side") -> str:
    before, behind = " ".join(map(str, side.before[-3:])), " ".join(map(str, side.behind[:3]))
    return f"... {before} {click.style(str(list(side.differing)), fg='yellow')} {behind} ..."


def _text(side: "Side", tokenizer: "TokenTexts") -> str:
    """The pieces that differ stand in brackets, one for each id."""
    from turnstile.compiler.explain.spelled_ids import spelled

    pieces = click.style("".join(f"[{piece}]" for piece in spelled(side.differing, tokenizer)), fg="yellow")
    before, behind = ("".join(spelled(ids, tokenizer)) for ids in (side.before, side.behind))
    return f"...{before}{pieces}{behind}..."


def _record(split: "Split", tokenizer: "TokenTexts | None") -> dict[str, Any]:
    from turnstile.compiler.explain.spelled_ids import spelled

    record = split.as_record()
    for side in (record["earlier"], record["later"]):
        if side is not None and tokenizer is not None:
            side["text"] = {
                name: spelled(side[name], tokenizer) for name in ("before", "differing", "behind")
            }
    return record
