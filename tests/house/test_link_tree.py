"""The type check sees the packages under their import names, with their types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.link_tree import ROOT, make_link_tree
from tests.house.source_tree import modules

MYPY = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]

PROJECT = {
    "pyproject.toml": '[tool.setuptools.package-dir]\n"turnstile" = "api"\n"turnstile.addon" = "addon"\n',
    "api/__init__.py": "",
    "api/numbers.py": "def doubled(number: int) -> int:\n    return 2 * number\n",
    "addon/__init__.py": "",
    "addon/wrong.py": "from turnstile.numbers import doubled\ndoubled('four')\ndef untyped(): ...\n",
}


def type_check(tree: Path, *arguments: str) -> str:
    environment = {**os.environ, "MYPYPATH": str(tree), "MYPY_CACHE_DIR": str(tree.parent / "cache")}
    done = subprocess.run([*MYPY, *arguments], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    make_link_tree(tmp_path / "tree")
    return tmp_path / "tree"


def test_every_module_stands_under_its_import_name(tree: Path) -> None:
    for name, path in modules().items():
        if name != "turnstile_addon":
            place = tree.joinpath(*name.split("."))
            file = place / "__init__.py" if path.name == "__init__.py" else place.with_suffix(".py")
            assert file.resolve() == path


def test_a_file_that_is_gone_leaves_the_tree(tree: Path) -> None:
    (tree / "turnstile" / "gone.py").write_text("")
    make_link_tree(tree)
    assert not (tree / "turnstile" / "gone.py").exists()


def test_a_wrong_type_across_folders_is_found(tmp_path: Path) -> None:
    project, tree = tmp_path / "project", tmp_path / "tree"
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    make_link_tree(tree, project)
    wrong = tree / "turnstile" / "addon" / "wrong.py"
    assert type_check(tree, "-p", "turnstile").splitlines() == [
        f'{wrong}:2: error: Argument 1 to "doubled" has incompatible type "str"; expected "int"  [arg-type]',
        f"{wrong}:3: error: Function is missing a return type annotation  [no-untyped-def]",
        f'{wrong}:3: note: Use "-> None" if function does not return a value',
    ]
