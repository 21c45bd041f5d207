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


def section(path: Path, heading: str) -> str:
    """Give what stands under a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", path.read_text(), re.M | re.S
    )
    assert found, f"{path.name} has no heading {heading}"
    return found[1]


def table(path: Path, *columns: str, under: str = "") -> list[list[str]]:
    """Give the rows of the first table with these columns, in the whole document or `under` a heading."""
    head = re.escape(f"| {' | '.join(columns)} |")
    text = section(path, under) if under else path.read_text()
    found = re.search(rf"^{head}\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"{path.name} has no table with the columns {columns}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def names_in(cell: str) -> list[str]:
    """Give what a cell, or any text, has in code type."""
    return re.findall(r"`([^`]+)`", cell)


def local_links(path: Path) -> list[tuple[Path, str]]:
    """Give the files of this project that a document links to, and the heading in each or ""."""
    targets = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text())
    return [(path.parent / file if file else path, anchor) for file, anchor in targets if "://" not in file]


def anchors(path: Path) -> set[str]:
    """Give what links to the headings of a document end in, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
