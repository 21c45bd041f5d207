from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.logs import answered, write_log
from tests.support.report_pages import data_of
from turnstile.cli import report
from turnstile.cli.main import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(
        tmp_path / "traces", answered(1, [1, 2], [3]), answered(2, [1, 2, 3, 4], [5], group_id="h")
    )


def ids(page: Path) -> list[str]:
    return [each["id"] for each in data_of(page.read_text())["sequences"]]


def test_logs_become_a_page_and_stdout_stays_empty(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("report", log.parent, "-o", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"written: {page} (2 sequences, {page.stat().st_size:,} bytes)\n"
    assert len(ids(page)) == 2


@pytest.mark.parametrize("suffix", [".jsonl", ".tseq", ".parquet"])
def test_a_compiled_file_becomes_the_page_of_its_logs_but_for_their_times(
    log: Path, tmp_path: Path, suffix: str
) -> None:
    output, page = tmp_path / f"out{suffix}", tmp_path / "report.html"
    assert run("compile", log, "-o", output).exit_code == 0
    assert run("report", output, "-o", page).exit_code == 0
    assert run("report", log, "-o", tmp_path / "other.html").exit_code == 0
    assert ids(page) == ids(tmp_path / "other.html")


def test_only_the_groups_that_are_named_are_in_the_page(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert run("report", log, "-o", page, "--group", "h").exit_code == 0
    assert ids(page) == [f"{answered(2, [1], [2]).exchange_id}.0"]
    page.unlink()
    result = run("report", log, "-o", page, "--group", "no")
    assert (result.exit_code, page.exists()) == (3, False)
    assert result.stderr == "Error: nothing of group no is in there; no page is written\n"


def test_a_wrong_command_line_exits_with_2_and_writes_nothing(log: Path, tmp_path: Path) -> None:
    output, page = tmp_path / "out.jsonl", tmp_path / "report.html"
    assert run("compile", log, "-o", output).exit_code == 0
    before = output.read_bytes()
    for arguments in (
        [output, "-o", output],
        [log, "-o", tmp_path],
        [log, "-o", tmp_path / "absent" / "report.html"],
        [log, "-o", tmp_path / "page.jsonl"],
        [output, log, "-o", page],
        [output, "-o", page, "--model", tmp_path],
        [log, "-o", page, "--model", tmp_path / "absent"],
        [log, "-o", page, "--tokenizer", tmp_path / "absent"],
        [log, "-o", page, "--tokenizer", output],
    ):
        assert run("report", *arguments).exit_code == 2
    assert (output.read_bytes(), page.exists()) == (before, False)


def test_what_cannot_be_read_exits_with_3(log: Path, tmp_path: Path) -> None:
    page, notes = tmp_path / "report.html", tmp_path / "notes.txt"
    notes.write_text("notes")
    for arguments in (
        [notes],
        [tmp_path / "absent"],
        [log, "--tokenizer", tmp_path],
        [log, "--model", tmp_path],
    ):
        assert run("report", *arguments, "-o", page).exit_code == 3
    assert not page.exists()


def test_a_tokenizer_that_cannot_be_read_is_said_before_the_logs_are(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"no log")
    result = run("report", log, "--tokenizer", tmp_path, "-o", tmp_path / "report.html")
    assert (result.exit_code, "holds no tokenizer.json" in result.stderr) == (3, True)


def test_a_page_that_is_too_large_to_open_is_written_with_a_warning(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LARGE_BYTES", 1)
    result = run("report", log, "-o", tmp_path / "report.html")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: a browser may not open so large a page; --group makes smaller")
