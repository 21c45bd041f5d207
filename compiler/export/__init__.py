"""Files of training sequences: the table of formats, and which one a file has.

A format is a module with `open_writer(path)`, a context manager that gives a writer with `write(sequence)`,
and `read(path)`. A module is imported when it is used.
"""

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Protocol, cast

from turnstile.compiler.errors import SequenceFileError, UnknownFormat
from turnstile.compiler.finding import FINDINGS_SUFFIX
from turnstile.compiler.sequence import TrainingSequence

FORMATS = {
    "jsonl": ("turnstile.compiler.export.jsonl", ".jsonl"),
    "msgpack": ("turnstile.compiler.export.tseq", ".tseq"),
    "parquet": ("turnstile.compiler.export.parquet", ".parquet"),
}
"""Name -> (module, suffix of the files that have it)."""

_SUFFIXES = {suffix: name for name, (_, suffix) in FORMATS.items()}
_MAGIC = {b"\x28\xb5\x2f\xfd": "msgpack", b"PAR1": "parquet"}
"""The first four bytes of a file; anything else is JSON."""


class Writer(Protocol):
    """Takes the sequences of one file in order."""

    def write(self, sequence: TrainingSequence) -> None:
        """Appends a sequence."""


class Format(Protocol):
    """What the module of a format offers."""

    def open_writer(self, path: Path) -> AbstractContextManager[Writer]:
        """Begins a file; it is whole when the context is left."""

    def read(self, path: Path) -> Iterator[TrainingSequence]:
        """The sequences of a file in order. Raises SequenceFileError where it cannot be read."""


def format_named(name: str | None, output: Path) -> Format:
    """The format of that name; without one, that of the suffix of `output`.

    Raises UnknownFormat when there is none.
    """
    name = name or _SUFFIXES.get(output.suffix)
    if name is None:
        suffixes = " or ".join(_SUFFIXES)
        raise UnknownFormat(f"the name {output.name} tells no format: end it in {suffixes}, or give --format")
    if name not in FORMATS:
        raise UnknownFormat(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return _module(name)


def is_compiled(path: Path) -> bool:
    """Whether it is to be read as a file of sequences, not as a trace log or a directory of them."""
    return path.suffix != ".tslog" and (path.is_file() or (path.suffix in _SUFFIXES and not path.is_dir()))


def read_sequences(path: str | PathLike[str]) -> Iterator[TrainingSequence]:
    """The sequences in a file that was compiled before, one at a time; its content tells the format.

    Raises SequenceFileError where it cannot be read.
    """
    path = Path(path)
    if path.name.endswith(FINDINGS_SUFFIX):
        raise SequenceFileError(f"{path} holds findings; name the compiled file that they are about")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise SequenceFileError(f"{path}: cannot be opened: {error.strerror}") from error
    if not start and _SUFFIXES.get(path.suffix) in _MAGIC.values():
        what = f"0 bytes, and a {path.suffix} file of no sequences has some"
        raise SequenceFileError(f"{path}: {what}: it was not written whole; compile it again")
    return _module(_MAGIC.get(start, "jsonl")).read(path)


def _module(name: str) -> Format:
    return cast(Format, importlib.import_module(FORMATS[name][0]))
