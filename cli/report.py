"""`turnstile report`: a compiled file or logs as one page to look at."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnstile.cli.errors import InputInvalid
from turnstile.cli.output_file import refuse_file

if TYPE_CHECKING:
    from turnstile.compiler.report.contents import Contents

LARGE_BYTES = 256 << 20
"""A page that a browser is slow with, or refuses."""

_PATH = click.Path(path_type=Path)
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command(
    epilog="""\b
Example:
  turnstile report sequences.jsonl -o report.html
"""
)
@click.argument("paths", metavar="OUT_OR_LOG...", nargs=-1, required=True, type=_PATH)
@click.option("-o", "--output", metavar="PAGE", required=True, type=_PATH, help="The page to write.")
@click.option("--group", "groups", metavar="G", multiple=True, help="Only this group. May be repeated.")
@click.option(
    "--tokenizer",
    metavar="DIR",
    type=_FOLDER,
    help="Folder of a tokenizer.json: text is shown beside the ids.",
)
@click.option(
    "--model", metavar="DIR", type=_FOLDER, help="Folder of the model's config.json, if a log has none."
)
def command(
    paths: tuple[Path, ...], output: Path, groups: tuple[str, ...], tokenizer: Path | None, model: Path | None
) -> None:
    """Make one page of sequences, to debug rollouts by.

    OUT is a file that `turnstile compile` wrote, shown with OUT.findings.jsonl beside it; LOGs are .tslog
    files or directories of them, compiled on the way. The page stands alone and asks the network for
    nothing. It holds the tokens, so treat it like the logs.
    """
    from dataclasses import replace

    from turnstile.compiler.output import whole_or_not_at_all
    from turnstile.compiler.report.page import report_page
    from turnstile.compiler.report.texts import texts_of
    from turnstile.compiler.tokenizer import tokenizer_in

    refuse_file(output, [path for path in paths if path.is_file()])
    if output.suffix in (".tslog", ".jsonl", ".tseq", ".parquet"):
        raise click.UsageError(f"{output} has the name of another kind of file; name a page: report.html")
    if tokenizer is not None:
        tokenizer_in(tokenizer)  # one that cannot be read is said before logs are compiled, which takes long
    contents = _contents(paths, groups, tokenizer, model)
    if groups and not contents.sequences and not contents.findings:
        raise InputInvalid(f"nothing of group {' or '.join(groups)} is in there; no page is written")
    if tokenizer is not None:
        contents = replace(contents, texts=texts_of(contents.sequences, tokenizer))
    page = report_page(contents)
    with whole_or_not_at_all(output) as unfinished:
        unfinished.write_bytes(page)
    if len(page) > LARGE_BYTES:
        click.echo("Warning: a browser may not open so large a page; --group makes smaller ones", err=True)
    click.echo(f"written: {output} ({len(contents.sequences):,} sequences, {len(page):,} bytes)", err=True)


def _contents(
    paths: tuple[Path, ...], groups: tuple[str, ...], tokenizer: Path | None, model: Path | None
) -> "Contents":
    from turnstile.compiler.export import is_compiled
    from turnstile.compiler.report.contents import contents_of_file, contents_of_logs

    if not any(map(is_compiled, paths)):
        return contents_of_logs(paths, groups, tokenizer=tokenizer, model=model)
    if len(paths) > 1:
        raise click.UsageError("name one compiled file, or trace logs and nothing else")
    if model is not None:
        raise click.UsageError("--model is for trace logs; the sequences of a compiled file are made already")
    return contents_of_file(paths[0], groups)
