import json
from pathlib import Path

import pytest

from tests.support.logs import answered, write_log
from tests.support.sequences import sequence
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export import format_named
from turnstile.compiler.finding import Finding
from turnstile.compiler.output import findings_path, write_compilation
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay
from turnstile.compiler.report.contents import contents_of_file, contents_of_logs

BAD = answered(3, [1, 2.5], [5])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two calls that merge, a bad one, and one of another group."""
    return write_log(
        tmp_path / "traces",
        answered(1, [1, 2], [3]),
        answered(2, [1, 2, 3, 4], [5]),
        BAD,
        answered(4, [1, 2], [7, 8], group_id="h", request={"n": 1}),
    )


@pytest.fixture
def compiled(log: Path, tmp_path: Path) -> Path:
    output = tmp_path / "out.tseq"
    with Replay([log]) as replay:
        write_compilation(replay, output, format_named(None, output), Options(), lambda exchanges: None)
    return output


def kinds(findings: object) -> list[str]:
    assert isinstance(findings, list)
    assert all(isinstance(each, Finding) for each in findings)
    return [each.kind for each in findings]


def test_logs_are_compiled_and_tell_how_their_replies_came(log: Path) -> None:
    contents = contents_of_logs([log.parent])
    expected = compile_logs(log)
    assert [each.sequence_id for each in contents.sequences] == [each.sequence_id for each in expected]
    assert list(contents.findings or ()) == list(expected.findings)
    assert contents.source == "traces"
    assert sorted(contents.arrivals) == [f"0123456789abcdef-00000{number}" for number in (1, 2, 3, 4)]


def test_a_compiled_file_comes_with_the_findings_beside_it(compiled: Path) -> None:
    contents = contents_of_file(compiled)
    assert [each.tokens.tolist() for each in contents.sequences] == [[1, 2, 3, 4, 5], [1, 2, 7, 8]]
    assert kinds(contents.findings) == ["token_type"]
    assert (contents.source, contents.arrivals) == ("out.tseq", {})


def test_without_its_findings_file_nothing_is_claimed_of_them(compiled: Path) -> None:
    findings_path(compiled).unlink()
    assert contents_of_file(compiled).findings is None


def test_of_a_file_only_the_groups_that_are_named_are_shown(compiled: Path) -> None:
    of_h = {"kind": "aborted", "severity": "warning", "exchange_id": answered(4, [1], [2]).exchange_id,
            "choice": 0, "log": "a", "offset": 1, "message": "m"}  # fmt: skip
    with findings_path(compiled).open("a") as file:
        file.write(json.dumps(of_h) + "\n")
    contents = contents_of_file(compiled, ["g"])
    assert [each.group_id for each in contents.sequences] == ["g"]
    assert kinds(contents.findings) == ["token_type"]
    # what was left out may be of any group, so it stays
    assert kinds(contents_of_file(compiled, ["h"]).findings) == ["token_type", "aborted"]


def test_a_findings_file_that_is_none_is_named_with_the_line(compiled: Path) -> None:
    findings_path(compiled).write_text('{"kind": "x"}\n')
    with pytest.raises(SequenceFileError, match=r"out\.tseq\.findings\.jsonl: line 1 is no finding"):
        contents_of_file(compiled)


def test_a_sequence_that_breaks_a_promise_is_named_and_not_drawn(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with format_named(None, output).open_writer(output) as writer:
        writer.write(sequence(segment_info=((False, 2), (True, 1))))
    with pytest.raises(SequenceFileError, match=r"out\.jsonl: sequence 1 \(e1\.0\): 5 tokens, but seg"):
        contents_of_file(output)
