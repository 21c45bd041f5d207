import sys
from pathlib import Path

import pytest

from turnstile.cli.typed import as_typed


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "turnstile"
    path.parent.mkdir()
    path.touch(mode=0o755)
    return path


def test_a_command_that_is_on_the_path_has_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    assert as_typed("explain", Path("my logs")) == "turnstile explain 'my logs'"


def test_another_one_has_its_path(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/turnstile"])
    monkeypatch.setenv("PATH", "")
    assert as_typed("demo") == "bin/turnstile demo"
    (tmp_path / "turnstile").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_typed("demo") == "bin/turnstile demo"


def test_a_program_of_another_name_tells_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert as_typed("demo") == "turnstile demo"
