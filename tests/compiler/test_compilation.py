from pathlib import Path

import pytest

from tests.support.logs import answered, write_log
from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.compiler.compilation import compile_logs


def test_logs_become_sequences_and_findings(tmp_path: Path) -> None:
    write_log(
        tmp_path, answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), answered(3, [1, 2.5], [4], group_id="h")
    )
    compilation = compile_logs(str(tmp_path))
    assert [sequence.tokens.tolist() for sequence in compilation] == [[1, 2, 3, 4]]
    assert (len(compilation), compilation[0], compilation[:]) == (
        1,
        compilation.sequences[0],
        compilation.sequences,
    )
    assert [finding.kind for finding in compilation.findings] == ["token_type"]


def test_what_is_wanted_can_be_chosen(tmp_path: Path) -> None:
    write_log(
        tmp_path, answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), answered(3, [9], [4], group_id="h")
    )
    found = compile_logs([tmp_path], groups=["g"], policy="per-request", max_tokens=3)
    assert [sequence.tokens.tolist() for sequence in found] == [[1, 2]]
    assert [(finding.kind, finding.severity) for finding in found.findings] == [("too_long", "error")]


def test_the_findings_about_a_log_come_first(tmp_path: Path) -> None:
    path = write_log(tmp_path, answered(1, [1.5], [2]), answered(2, [1], [2]), close=False)
    path.write_bytes(path.read_bytes()[:-1])
    assert [finding.kind for finding in compile_logs([tmp_path]).findings] == ["log_torn", "token_type"]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError):
        compile_logs([tmp_path])
