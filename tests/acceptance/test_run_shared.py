from pathlib import Path

import pytest

from tests.acceptance import run_shared
from tests.acceptance.run_shared import PASSING, Verdict, read_junit, read_passing, summary

RESULTS = """<testsuite name='cases' tests='3'>
<testcase classname='cases' name='001'></testcase>
<testcase classname='cases' name='003'><failure message='tokens differ at 4: 7 &lt; 9'/></testcase>
<testcase classname='cases' name='005'><skipped message='exchanges overlap in time'/></testcase>
</testsuite>
"""

# Stands in for run_cases.py: case 001 passes, 002 fails; of the recordings only dense passes.
RUNNER = """import pathlib, sys
golden = "--golden" in sys.argv
cases = "<testcase name='dense'/>" if golden else "<testcase name='001'/><testcase name='002'><failure message='no'/></testcase>"
pathlib.Path(sys.argv[sys.argv.index("--junit") + 1]).write_text(f"<testsuite>{cases}</testsuite>")
sys.exit(0 if golden else 1)
"""  # noqa: E501


def test_the_verdicts_of_a_run_are_read() -> None:
    assert read_junit("case", RESULTS) == {
        "case 001": Verdict("PASS"),
        "case 003": Verdict("FAIL", "tokens differ at 4: 7 < 9"),
        "case 005": Verdict("SKIP", "exchanges overlap in time"),
    }


def test_comments_and_blank_lines_of_the_list_are_left_out() -> None:
    assert read_passing("# why\n\ncase 001\n  golden  dense_n2  # here too\n") == [
        "case 001",
        "golden dense_n2",
    ]


def test_what_is_not_listed_is_reported_and_fails_nothing() -> None:
    lines, passed = summary(
        {"case 001": Verdict("PASS"), "case 002": Verdict("FAIL", "no"), "case 003": Verdict("PASS")},
        ["case 001"],
    )
    assert passed
    assert lines == [
        "not listed, and so not asked for (2):",
        "  case 002: FAIL  no",
        "  case 003: PASS",
        "pass and could be listed in passing.txt: case 003",
        "1 passed, 0 failed",
    ]


def test_a_listed_case_that_failed_was_skipped_or_did_not_run_fails_the_run() -> None:
    lines, passed = summary(
        {"case 001": Verdict("PASS"), "case 002": Verdict("FAIL", "no"), "case 003": Verdict("SKIP", "why")},
        ["case 001", "case 002", "case 003", "case 004"],
    )
    assert not passed
    assert lines == [
        "not listed, and so not asked for (0):",
        "listed, and did not pass:",
        "  case 002: FAIL  no",
        "  case 003: SKIP  why",
        "  case 004: did not run",
        "1 passed, 3 failed",
    ]


def run(shared: Path, runner: str, listed: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (shared / "cases").mkdir()
    (shared / "cases" / "run_cases.py").write_text(runner)
    (shared / "passing.txt").write_text(listed)
    monkeypatch.setattr(run_shared, "PASSING", shared / "passing.txt")
    monkeypatch.setattr("sys.argv", ["run_shared.py", str(shared)])
    return run_shared.main()


def test_cases_and_recordings_are_run_and_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, RUNNER, "case 001\ngolden dense\n", monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 0 failed"


def test_a_runner_that_breaks_fails_the_run_and_shows_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "raise SystemExit('there is no mitmdump')", "case 001\n", monkeypatch) == 1
    captured = capsys.readouterr()
    assert "there is no mitmdump" in captured.err
    assert captured.out.splitlines()[-2:] == ["  case 001: did not run", "0 passed, 1 failed"]


def test_the_list_names_each_case_once() -> None:
    listed = read_passing(PASSING.read_text())
    assert len(listed) == len(set(listed)) > 0
    assert all(name.split()[0] in ("case", "golden") and len(name.split()) == 2 for name in listed)
