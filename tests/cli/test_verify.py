from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.logs import answered, write_log
from turnstile.cli.main import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_what_holds_is_counted(tmp_path: Path) -> None:
    log, output = write_log(tmp_path / "traces", answered(1, [1, 2], [3])), tmp_path / "out.jsonl"
    assert run("compile", log, "-o", output).exit_code == 0
    result = run("verify", tmp_path / "traces", output)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "all well: 1 exchanges in 1 logs, 1 sequences in 1 files\n"


def test_the_first_thing_that_does_not_hold_is_named(tmp_path: Path) -> None:
    log, output = write_log(tmp_path / "traces", answered(1, [1, 2], [3])), tmp_path / "out.jsonl"
    assert run("compile", log, "-o", output).exit_code == 0
    output.write_bytes(output.read_bytes().replace(b"-0.125", b"0.125"))
    result = run("verify", log, output)
    name = f"{answered(1, [1], [2]).exchange_id}.0"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {output}: sequence 1 ({name}): the logprob of token 2 is 0.125, "
        "expected a finite number not above 0\n"
    )


def test_what_is_neither_log_nor_output_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    assert run("verify", tmp_path / "notes.txt").exit_code == 3
    assert run("verify", tmp_path / "absent.tslog").exit_code == 3


@pytest.mark.parametrize("name", ["absent.tseq", "absent.parquet", "absent.jsonl"])
def test_a_compiled_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    result = run("verify", tmp_path / name)
    assert result.exit_code == 3
    assert result.stderr == f"Error: {tmp_path / name}: cannot be opened: No such file or directory\n"


def test_findings_beside_a_compiled_file_are_no_compiled_file(tmp_path: Path) -> None:
    log, output = write_log(tmp_path / "traces", answered(1, [1, 2], [3])), tmp_path / "out.jsonl"
    assert run("compile", log, "-o", output).exit_code == 0
    result = run("verify", *sorted(tmp_path.glob("out*")))
    assert result.stdout == "all well: 0 exchanges in 0 logs, 1 sequences in 1 files\n"
    result = run("verify", f"{output}.findings.jsonl")
    assert (result.exit_code, "holds findings; name the compiled file" in result.stderr) == (3, True)


def test_a_file_that_is_no_log_fails_and_is_named(tmp_path: Path) -> None:
    write_log(tmp_path, answered(1, [1, 2], [3]))
    (tmp_path / "0.tslog").write_bytes(bytes(4096))
    result = run("verify", tmp_path)
    assert (result.exit_code, str(tmp_path / "0.tslog") in result.stderr) == (1, True)
