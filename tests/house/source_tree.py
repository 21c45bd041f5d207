"""The modules of the project as their files say, without importing one."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.house.link_tree import ROOT, package_folders

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def package_files(root: Path = ROOT) -> Iterator[tuple[str, Path]]:
    """Give every file of the mapped folders with its place below site-packages."""
    for name, folder in package_folders(root).items():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name.replace('.', '/')}/{path.relative_to(folder).as_posix()}", path


@cache
def modules() -> dict[str, Path]:
    """Give the file of each module, under the name it is imported by; packages too."""
    found = {"turnstile_addon": ROOT / "turnstile_addon.py"}
    for place, path in package_files():
        if path.suffix == ".py":
            found[place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = path
    return found


@cache
def imports(module: str, path: Path, *, whole: bool = True) -> set[str]:
    """Give what a module imports, as absolute dotted names; with `whole=False` only at module level."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if whole else iter(tree.body)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names
