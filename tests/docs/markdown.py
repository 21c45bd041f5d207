"""Reads the project's documents: code blocks, tables, links."""

import re
from pathlib import Path

from tests.house.link_tree import ROOT

DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)


def code_blocks(path: Path, language: str) -> list[str]:
    """Give the fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def commands(path: Path) -> list[str]:
    """Give the commands of the console blocks, without their prompts."""
    lines = [line for block in code_blocks(path, "console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def table(path: Path, *columns: str) -> list[list[str]]:
    """Give the rows of the table with these columns."""
    head = re.escape(f"| {' | '.join(columns)} |")
    found = re.search(rf"^{head}\n\|[-|]+\|\n((?:\|.*\n)+)", path.read_text(), re.MULTILINE)
    assert found, f"{path.name} has no table with the columns {columns}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def names_in(cell: str) -> list[str]:
    """Give what a cell has in code type."""
    return re.findall(r"`([^`]+)`", cell)


def local_links(path: Path) -> list[Path]:
    """Give the files of this project that a document links to."""
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    return [path.parent / target for target in targets if "://" not in target]
