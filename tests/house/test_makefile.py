"""The Makefile finds its interpreter, and its environment is pinned."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.link_tree import ROOT
from tests.house.source_tree import PYPROJECT

MAKEFILE = (ROOT / "Makefile").read_text()
TOOLS = ("make", "sh", "ls", "sort", "touch", "mkdir", "cp", "chmod", "sed", "awk")

# Says yes to every question and, asked for an environment, makes one in which nothing happens.
PYTHON = """#!/bin/sh
case "$2" in
venv) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
[ "$1" != -V ] || echo "Python of $0"
"""
BROKEN = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"
TOO_OLD = '#!/bin/sh\n[ "$1" != -c ]\n'


class Machine:
    """A project folder, a PATH of bare tools and a pyenv of one's own."""

    def __init__(self, folder: Path) -> None:
        self.project, self.path, self.pyenv = folder / "project", folder / "bin", folder / "pyenv"
        for made in (self.project / "requirements", self.path, self.pyenv):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "Makefile", self.project)
        (self.project / "requirements" / "dev.txt").touch()
        (self.project / "pyproject.toml").touch()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or tool)

    def has(self, place: Path, script: str) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script)
        place.chmod(0o755)
        return place

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), "PYENV_ROOT": str(self.pyenv), "HOME": str(self.project)}
        command = [str(self.path / "make"), *arguments]
        return subprocess.run(command, cwd=self.project, env=environment, capture_output=True, text=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_newest_of_the_names_on_the_path_is_taken(machine: Machine) -> None:
    for name in ("python3", "python3.12", "python3.13"):
        machine.has(machine.path / name, PYTHON)
    assert "(python3.13)" in machine.make(".venv/requirements").stdout


def test_a_name_that_fails_when_run_is_passed_over(machine: Machine) -> None:
    machine.has(machine.path / "python3.13", BROKEN)
    machine.has(machine.path / "python3.12", BROKEN)
    machine.has(machine.path / "python3", PYTHON)
    assert "(python3)" in machine.make(".venv/requirements").stdout


def test_below_pyenv_the_newest_version_is_taken(machine: Machine) -> None:
    machine.has(machine.path / "python3", TOO_OLD)
    for version in ("3.9.18", "3.12.1", "3.13.0"):
        machine.has(machine.pyenv / "versions" / version / "bin" / "python", PYTHON)
    assert f"({machine.pyenv}/versions/3.13.0/bin/python)" in machine.make(".venv/requirements").stdout


def test_an_interpreter_that_is_named_is_taken(machine: Machine) -> None:
    machine.has(machine.path / "python3.13", PYTHON)
    named = machine.has(machine.pyenv / "mine", PYTHON)
    assert f"({named})" in machine.make(".venv/requirements", f"PYTHON={named}").stdout


def test_without_an_interpreter_make_says_what_is_needed(machine: Machine) -> None:
    machine.has(machine.path / "python3", TOO_OLD)
    done = machine.make("test")
    assert done.returncode == 2
    assert done.stderr.splitlines()[:3] == [
        "Turnstile needs Python 3.12 or newer with its venv module (Debian: python3-venv). Looked at:",
        f"  python3.13 python3.12 python3 on PATH; {machine.pyenv}/versions/3.*/bin/python",
        "Install one, or name it: make test PYTHON=/path/to/python3",
    ]
    assert not (machine.project / ".venv").exists()


def test_the_environment_is_reused_until_what_it_is_made_of_changes(machine: Machine) -> None:
    machine.has(machine.path / "python3", PYTHON)
    assert "making .venv" in machine.make(".venv/project").stdout
    assert "up to date" in machine.make(".venv/project").stdout
    made = (machine.project / ".venv" / "requirements").stat().st_mtime
    os.utime(machine.project / "pyproject.toml", (made + 10, made + 10))
    assert "--editable ." in (again := machine.make(".venv/project").stdout)
    assert "making .venv" not in again
    os.utime(machine.project / "requirements" / "dev.txt", (made + 10, made + 10))
    assert "making .venv" in machine.make(".venv/project").stdout


def test_make_alone_lists_what_can_be_made(machine: Machine) -> None:
    listed = machine.make().stdout
    documented = re.findall(r"^([a-z0-9-]+):.*##", MAKEFILE, re.MULTILINE)
    assert re.findall(r"^make (\S+)", listed, re.MULTILINE) == documented


def test_the_oldest_python_is_the_one_of_the_package() -> None:
    (oldest,) = re.findall(r"sys\.version_info < \((\d+), (\d+)\)", MAKEFILE)
    required = ".".join(oldest)
    assert PYPROJECT["project"]["requires-python"] == f">={required}"
    assert f"--python-version {required}" in MAKEFILE
    assert PYPROJECT["tool"]["mypy"]["python_version"] == required
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{required.replace('.', '')}"


@pytest.mark.parametrize("name", ["dev", "lock"])
def test_every_requirement_is_pinned_and_hashed_and_names_no_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^ *#.*\n?", "", text, flags=re.MULTILINE))
    assert len(entries) == len(re.findall(r"^[a-z]", text, re.MULTILINE))
    assert all(re.match(r"[a-z0-9._-]+==\S+ ", entry) and "--hash=sha256:" in entry for entry in entries)
    assert re.findall(r"://|^-", text, re.MULTILINE) == []


def test_every_dependency_is_in_the_lock() -> None:
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["demo"]]
    wanted += [*PYPROJECT["dependency-groups"]["dev"]]
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    assert {requirement.split(">=")[0] for requirement in wanted} <= set(locked)
