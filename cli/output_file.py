"""Refuses to write over what should not be written over, before any work is done."""

from collections.abc import Sequence
from pathlib import Path

import click


def refuse_file(path: Path, inputs: Sequence[Path]) -> None:
    """Refuses to write a file in the place of what is none, or of an input. Raises click.UsageError."""
    if path.is_dir():
        raise click.UsageError(f"{path} is a directory; name the file to write")
    if _is_of_system(path.parent.resolve()):
        raise click.UsageError(f"{path} is no place for files; name a file to write")
    target = path.resolve() if path.is_symlink() else path
    if not target.parent.is_dir():
        raise click.UsageError(f"there is no directory {target.parent} to write {target.name} into")
    if path.exists() and not path.is_file():
        raise click.UsageError(f"{path} is no regular file; name another file to write")
    if path.exists() and any(path.samefile(each) for each in inputs):
        raise click.UsageError(f"{path} is one of the files to read; name another file to write")


def _is_of_system(folder: Path) -> bool:
    """Whether it is /dev or within /proc: with `> FILE` their stdout looks like a regular file."""
    return folder == Path("/dev") or folder.is_relative_to("/proc")
