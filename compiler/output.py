"""A compilation as files: the sequences, and beside them the findings.

Both are written under other names and renamed when they are whole, the findings first: a file under its
final name is never half of one, and never without its findings.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from turnstile.compiler.export import Format
from turnstile.compiler.export.jsonl import json_line
from turnstile.compiler.finding import FINDINGS_SUFFIX, Finding
from turnstile.compiler.pipeline import Options, Progress, compile_groups
from turnstile.compiler.replay import Replay
from turnstile.compiler.summary import Summary


def findings_path(output: Path) -> Path:
    """Where the findings about `output` stand."""
    return output.with_name(output.name + FINDINGS_SUFFIX)


def write_compilation(
    replay: Replay, output: Path, format_: Format, options: Options, progress: Progress
) -> Summary:
    """Compiles into `output` and its findings file. Raises OSError when they cannot be written."""
    summary = Summary(groups=len(replay.groups))
    with (
        whole_or_not_at_all(output) as sequences_file,
        whole_or_not_at_all(findings_path(output)) as findings_file,
        format_.open_writer(sequences_file) as sequences,
        findings_file.open("wb") as findings,
    ):
        about_logs = [*replay.findings, *replay.rewards_without_exchange(options.rewards)]
        _write_findings(findings, about_logs, summary)
        for group in compile_groups(replay, options, progress):
            for sequence in group.sequences:
                sequences.write(sequence)
                summary.add_sequence(sequence)
            _write_findings(findings, group.findings, summary)
            summary.exchanges += group.exchanges
            summary.turns += group.turns
    return summary


def _write_findings(file: BinaryIO, findings: list[Finding], summary: Summary) -> None:
    file.writelines(json_line(finding.as_record()) for finding in findings)
    summary.add_findings(findings)


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """A path to write to; what is there takes the place of `path` unless an error ends the context.

    A symbolic link stays one: it is what it points to that is written.
    """
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
