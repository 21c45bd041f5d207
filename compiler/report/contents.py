"""What a report is about: the sequences of a compiled file or of logs, and what else is known of them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export import read_sequences
from turnstile.compiler.finding import Finding
from turnstile.compiler.output import findings_path
from turnstile.compiler.replay import Replay
from turnstile.compiler.report.arrivals import Arrival, arrivals_in
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.verify_sequence import broken_promise


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses, where the page is one among others."""

    home: str  # of all groups
    exchanges: Mapping[str, str]  # by exchange


@dataclass(frozen=True, slots=True)
class Contents:
    """All that the page is made of."""

    source: str  # the names of what was read
    sequences: Sequence[TrainingSequence]
    findings: Sequence[Finding] | None  # None: there is no findings file beside the compiled one
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)  # by exchange; logs alone tell
    texts: Mapping[int, str] | None = None  # by token id, as far as known; None without any
    links: Links | None = None


def contents_of_file(path: Path, groups: Collection[str] = ()) -> Contents:
    """A file that `turnstile compile` wrote, with the findings beside it.

    `groups` names those that are wanted, all when empty. Findings do not tell their group, so those about
    calls that are in no sequence stay. Raises SequenceFileError where one of the files cannot be read, and
    for a sequence that breaks a promise: the page would tell what is not so.
    """
    sequences, elsewhere = list[TrainingSequence](), set[str]()
    for number, sequence in enumerate(read_sequences(path), 1):
        if fault := broken_promise(sequence):
            raise SequenceFileError(f"{path}: sequence {number} ({sequence.sequence_id}): {fault}")
        if not groups or sequence.group_id in groups:
            sequences.append(sequence)
        else:
            elsewhere.update(call.exchange_id for call in sequence.exchanges)
    findings = _findings_in(findings_path(path))
    if findings is not None:
        findings = [each for each in findings if each.exchange_id not in elsewhere]
    return Contents(path.name, sequences, findings)


def contents_of_logs(
    paths: Sequence[Path],
    groups: Collection[str] = (),
    *,
    tokenizer: Path | None = None,
    model: Path | None = None,
) -> Contents:
    """Trace logs or directories of them, compiled strictly: see `compile_logs`, which raises the same."""
    compilation = compile_logs(paths, groups=groups, tokenizer=tokenizer, model=model)
    with Replay(paths, groups) as replay:
        arrivals = arrivals_in(replay)
    source = ", ".join(path.name or str(path) for path in paths)
    return Contents(source, compilation.sequences, compilation.findings, arrivals)


def _findings_in(path: Path) -> list[Finding] | None:
    if not path.exists():
        return None
    findings = list[Finding]()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                findings.append(Finding(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise SequenceFileError(f"{path}: line {number} is no finding: {error}") from error
    return findings
