"""Runs the acceptance cases and recordings of a folder: `python run_shared.py FOLDER`.

FOLDER holds `cases/run_cases.py` and `golden/`. What `passing.txt` lists must pass; anything else is reported
and fails nothing. The list only grows: a case that passes and is not in it is named, so that it gets there.
Standard library only. Exit code 0: all that is listed passed; 1: something listed failed or did not run.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PASSING = Path(__file__).with_name("passing.txt")
TIMEOUT_S = 600


class Verdict(NamedTuple):
    """What came of one case: `PASS`, `FAIL` or `SKIP`, and why."""

    state: str
    why: str = ""


def read_passing(text: str) -> list[str]:
    """Give the ids in a list, one a line, `case 001` or `golden NAME`; `#` starts a comment."""
    lines = (" ".join(line.partition("#")[0].split()) for line in text.splitlines())
    return [line for line in lines if line]


def read_junit(kind: str, xml: str) -> dict[str, Verdict]:
    """Give the verdicts in a JUnit file of run_cases.py, under `KIND NAME`."""
    return {
        f"{kind} {case.get('name')}": _verdict(case) for case in ElementTree.fromstring(xml).iter("testcase")
    }


def summary(verdicts: Mapping[str, Verdict], listed: list[str]) -> tuple[list[str], bool]:
    """Give the report's lines, last of all the count of what is listed, and whether all of that passed."""
    failed = [name for name in listed if verdicts.get(name, Verdict("MISSING")).state != "PASS"]
    rest = {name: verdict for name, verdict in verdicts.items() if name not in listed}
    lines = [f"{name}: {verdict.state}  {verdict.why}".rstrip() for name, verdict in rest.items()]
    lines = [f"not listed, and so not asked for ({len(rest)}):", *(f"  {line}" for line in lines)]
    if ready := [name for name, verdict in rest.items() if verdict.state == "PASS"]:
        lines.append(f"pass and could be listed in {PASSING.name}: {', '.join(ready)}")
    if failed:
        lines.append("listed, and did not pass:")
        lines += [f"  {name}: {_complaint(verdicts.get(name))}" for name in failed]
    lines.append(f"{len(listed) - len(failed)} passed, {len(failed)} failed")
    return lines, not failed


def run_cases(kind: str, shared: Path, results: Path) -> dict[str, Verdict]:
    """Run the cases (`case`) or the recordings (`golden`); what it could not run has no verdict."""
    tools = Path(sys.executable).parent
    command = [sys.executable, str(shared / "cases" / "run_cases.py")]
    command += ["--turnstile", str(tools / "turnstile"), "--mitmdump", str(tools / "mitmdump")]
    command += ["--addon", str(ROOT / "turnstile_addon.py"), "--junit", str(results)]
    command += ["--golden", str(shared / "golden")] if kind == "golden" else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"the {kind} run took more than {TIMEOUT_S} s and was ended", file=sys.stderr)
        return {}
    if not results.exists():
        print(f"the {kind} run ended with exit code {done.returncode} and no results:", file=sys.stderr)
        print(done.stdout + done.stderr, file=sys.stderr)
        return {}
    return read_junit(kind, results.read_text())


def main() -> int:
    """Run both kinds, print the report, and give the exit code."""
    shared = Path(sys.argv[1]).resolve()
    verdicts: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("case", "golden"):
            verdicts |= run_cases(kind, shared, Path(folder, f"{kind}.xml"))
    lines, passed = summary(verdicts, read_passing(PASSING.read_text()))
    print("\n".join(lines))
    return 0 if passed else 1


def _verdict(case: ElementTree.Element) -> Verdict:
    for tag, state in (("failure", "FAIL"), ("skipped", "SKIP")):
        if (found := case.find(tag)) is not None:
            return Verdict(state, found.get("message", ""))
    return Verdict("PASS")


def _complaint(verdict: Verdict | None) -> str:
    return "did not run" if verdict is None else f"{verdict.state}  {verdict.why}"


if __name__ == "__main__":
    sys.exit(main())
