"""Lays out the packages under their import names, as links: `python link_tree.py FOLDER`.

mypy follows folders, not the import hook of an editable install, and the folders here have other names
than the packages (`addon` is `turnstile.addon`). The tree is made from pyproject.toml's `package-dir`, new
at every call; folders below a mapped one come with it.
"""

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def package_folders(root: Path = ROOT) -> dict[str, Path]:
    """Give the folder of each package that pyproject.toml maps, outer packages first."""
    setuptools = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    return {name: root / folder for name, folder in sorted(setuptools["package-dir"].items())}


def make_link_tree(target: Path, root: Path = ROOT) -> None:
    """Replace `target` by a tree in which every mapped package stands under its import name."""
    shutil.rmtree(target, ignore_errors=True)
    for name, folder in package_folders(root).items():
        package = target.joinpath(*name.split("."))
        package.mkdir(parents=True, exist_ok=True)
        for entry in folder.iterdir():
            if entry.name != "__pycache__":
                (package / entry.name).symlink_to(entry)


if __name__ == "__main__":
    make_link_tree(Path(sys.argv[1]))
