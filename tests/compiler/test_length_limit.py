from pathlib import Path

from tests.support.logs import answered, write_log
from turnstile.compiler.compilation import compile_logs


def test_every_call_of_a_sequence_that_is_too_long_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), answered(3, [1], [5]))
    compiled = compile_logs(log, max_tokens=3)
    assert [sequence.tokens.tolist() for sequence in compiled] == [[1, 5]]
    assert [(finding.kind, finding.message) for finding in compiled.findings] == [
        ("too_long", "its sequence has 4 tokens, more than the 3 wanted")
    ] * 2


def test_sequence_whose_parent_is_left_out_has_none(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1, 2, 3], [4]), answered(2, [1, 2], [5]))
    assert [sequence.parent is None for sequence in compile_logs(log)] == [True, False]
    assert [sequence.parent for sequence in compile_logs(log, max_tokens=3)] == [None]


def test_sequence_of_just_the_limit_is_kept(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1, 2], [3]))
    assert len(compile_logs(log, max_tokens=3)) == 1
    assert len(compile_logs(log, max_tokens=2)) == 0
