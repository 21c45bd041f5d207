"""JSON Lines: one sequence a line.

Numbers are written as the shortest text that reads back to the same float64; files of images, values of
tensors, and routed experts as little-endian int32, in base64.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from pybase64 import b64encode

from turnstile.addon.backends.exact_json import loads
from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export.records import as_record, from_record
from turnstile.compiler.sequence import TrainingSequence


class JsonlWriter:
    """Writes lines into an open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, sequence: TrainingSequence) -> None:
        """Appends a line."""
        record = as_record(sequence)
        if sequence.routed_experts is not None:
            record["routed_experts"] = b64encode(sequence.routed_experts.astype("<i4").tobytes()).decode()
        tensors = (tensor for made in record["processed_images"] for tensor in made["tensors"].values())
        for holder in (*record["images"], *tensors):
            holder["data"] = b64encode(holder["data"]).decode()
        self._file.write(json_line(record))


@contextmanager
def open_writer(path: Path) -> Iterator[JsonlWriter]:
    """A writer into a new file at `path`."""
    with path.open("wb") as file:
        yield JsonlWriter(file)


def read(path: Path) -> Iterator[TrainingSequence]:
    """The sequences of a file in order. Raises SequenceFileError at a line that holds none."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                sequence = from_record(loads(line).value)
            except KeyError as error:
                raise SequenceFileError(
                    f"{path}: line {number} is no training sequence: it has no {error.args[0]}"
                ) from error
            except (ValueError, TypeError, AttributeError) as error:
                raise SequenceFileError(f"{path}: line {number} is no training sequence: {error}") from error
            yield sequence


def json_line(record: Mapping[str, Any]) -> bytes:
    """The record on one line of JSON, arrays as lists."""
    try:
        return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a harness sent an integer beyond 64 bits or a lone surrogate as a sampling parameter
        return json.dumps(record, separators=(",", ":"), default=_as_list).encode() + b"\n"


def _as_list(array: Any) -> Any:
    return array.tolist()
