"""The wheel, built from the source and run where nothing else of the project is."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.house.link_tree import ROOT, package_folders
from tests.house.source_tree import PYPROJECT, modules, package_files

LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "bench", "docs"
)


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from a copy of the source, without a registry."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", ".", "./source", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel, and this one's site-packages for its dependencies.

    A path in a .pth file is only appended to sys.path: the .pth of an editable install in it is not read, so
    `turnstile` can come from nowhere but the wheel.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--python", python]
    run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    site_packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    Path(site_packages.strip(), "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin"


def test_every_package_folder_is_in_the_list_of_packages() -> None:
    folders = {
        ".".join([name, *init.relative_to(folder).parent.parts])
        for name, folder in package_folders().items()
        for init in folder.rglob("__init__.py")
    }
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(folders)


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {place for place, _ in package_files()} | {"turnstile_addon.py"}


def test_the_wheel_holds_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_the_wheel_runs_in_an_environment_of_its_own(installed: Path, tmp_path: Path) -> None:
    assert "Commands:" in run(installed / "turnstile", "--help", cwd=tmp_path)
    addon = Path(run(installed / "turnstile", "addon-path", cwd=tmp_path).strip())
    assert addon.is_relative_to(installed.parent)
    assert addon.read_text() == (ROOT / "turnstile_addon.py").read_text()


def test_every_module_of_the_wheel_can_be_imported(installed: Path, tmp_path: Path) -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {sorted(modules())!r}:\n"
        "    print(importlib.import_module(name).__file__)\n"
    )
    origins = run(installed / "python", "-c", script, cwd=tmp_path).splitlines()
    assert len(origins) == len(modules())
    assert all(Path(origin).is_relative_to(installed.parent) for origin in origins)
