"""`turnstile demo`: the whole way on this machine."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnstile.cli.errors import InputInvalid
from turnstile.cli.typed import as_typed

if TYPE_CHECKING:
    from rich.table import Table

    from turnstile.compiler.compilation import Compilation
    from turnstile.compiler.sequence import TrainingSequence

_KEEP = "leaves the log and the sequences in demo/"
_WHY = "why the second rollout split, with the tokens on both sides:"


@click.command(
    epilog="""\b
Example:
  turnstile demo --keep demo/
"""
)
@click.option("--backend", metavar="URL", help="A running SGLang to ask instead of the recorded one.")
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Leave the log and the sequences in this new or empty folder.",
)
def command(backend: str | None, keep: Path | None) -> None:
    """Run the whole way on this machine, without a GPU.

    Starts a recorded backend, mitmdump with the addon in front of it, and a small agent with a tool on the
    OpenAI client; then compiles what was captured and shows the sequences.
    """
    from rich.console import Console

    from turnstile.compiler.errors import NotInstalled

    try:
        import openai
    except ModuleNotFoundError as error:
        raise NotInstalled("the demo needs the OpenAI client", "demo") from error
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise click.UsageError(f"{keep} is not empty; name a new folder")
    from turnstile.demo import SAMPLE_LOG, run_demo
    from turnstile.errors import ProxyStartError

    say = Console(stderr=True, highlight=False, soft_wrap=True)
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory(prefix="turnstile-demo-") as place:
        directory = Path(place)
        try:
            compilation = run_demo(directory, backend, say.print)
        except (ProxyStartError, openai.OpenAIError) as error:
            raise InputInvalid(f"the demo did not get through: {error}") from error
    Console().print(_table(compilation))
    say.print(f"{as_typed('demo', '--keep', 'demo/')} {_KEEP}" if keep is None else f"kept: {keep}")
    say.print(f"{_WHY} {as_typed('explain', SAMPLE_LOG if keep is None else keep / 'traces')}")


def _table(compilation: "Compilation") -> "Table":
    from rich.table import Table

    table = Table(title="What the policy saw and sampled", title_justify="left")
    for column in ("rollout", "turns"):
        table.add_column(column)
    for column in ("tokens", "trained"):
        table.add_column(column, justify="right")
    table.add_column("why it is a sequence of its own")
    for sequence in compilation:
        table.add_row(*_row(sequence))
    return table


def _row(sequence: "TrainingSequence") -> tuple[str, ...]:
    left = sequence.parent
    why = f"{left.cause}: left an earlier one after {left.shared_tokens} tokens" if left else "the first"
    trained = int(sequence.loss_mask.sum())
    turns = str(len(sequence.exchanges))
    return sequence.rollout_id or "", turns, str(len(sequence.tokens)), str(trained), why
