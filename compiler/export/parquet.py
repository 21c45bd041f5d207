"""Apache Parquet: one sequence a row, for data frames and trainers that read tables.

The columns are the fields of the JSONL line in their order. `tokens` and `logprobs` are lists;
`routed_experts` is the array's bytes, little-endian in C order, `routed_experts_dtype` its type (`uint8` or
`uint16`). An image's file stands once, in the first row that has it: `data` is null in later ones. What has
no fixed shape (`sampling`, an item a turn, `processor` and `metadata`) is JSON text. Needs pyarrow: the extra
`parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnstile.addon.backends.exact_json import loads
from turnstile.compiler.errors import NotInstalled, SequenceFileError
from turnstile.compiler.export.records import as_record, from_record
from turnstile.compiler.sequence import TrainingSequence

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter as ArrowWriter

ROWS_A_GROUP = 64  # sequences in memory before they are written

_DTYPES = {"uint8": "|u1", "uint16": "<u2"}


class ParquetWriter:
    """Writes row groups into an open file."""

    def __init__(self, writer: ArrowWriter) -> None:
        self._writer = writer
        self._rows: list[dict[str, Any]] = []
        self._written: set[str] = set()  # images

    def write(self, sequence: TrainingSequence) -> None:
        """Appends a row."""
        row = _row(sequence)
        for image in row["images"]:
            if image["sha256"] in self._written:
                image["data"] = None
            self._written.add(image["sha256"])
        self._rows.append(row)
        if len(self._rows) == ROWS_A_GROUP:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that are in memory."""
        if self._rows:
            import pyarrow

            self._writer.write_table(pyarrow.Table.from_pylist(self._rows, self._writer.schema))
            self._rows = []


@contextmanager
def open_writer(path: Path) -> Iterator[ParquetWriter]:
    """A writer into a new file at `path`. Raises NotInstalled without pyarrow."""
    parquet = _pyarrow_parquet()
    with parquet.ParquetWriter(path, _schema(), compression="zstd") as file:
        writer = ParquetWriter(file)
        yield writer
        writer.flush()


def read(path: Path) -> Iterator[TrainingSequence]:
    """The sequences of a file in order.

    Raises SequenceFileError where it cannot be read, NotInstalled without pyarrow.
    """
    parquet, count, images = _pyarrow_parquet(), 0, dict[str, bytes]()
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP):
                for row in batch.to_pylist():
                    yield from_record(_record(row, images))
                    count += 1
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:  # pyarrow's own errors are ValueErrors
        raise SequenceFileError(
            f"{path}: cannot be read behind its first {count} sequences: {error!r}"
        ) from error


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    call = pa.struct({"exchange_id": text, "choice": pa.int32()})
    image = pa.struct(
        {"sha256": text, "mime": text, "data": pa.large_binary(), "token_span": pa.list_(pa.int32())}
    )
    tensor = pa.struct(
        {"name": text, "dtype": text, "shape": pa.list_(pa.int64()), "data": pa.large_binary()}
    )
    processed = pa.struct({"sha256": text, "processor": text, "tensors": pa.list_(tensor)})
    parent = pa.struct({"sequence_id": text, "shared_tokens": pa.int32(), "cause": text})
    return pa.schema(
        {
            "sequence_id": text,
            "group_id": text,
            "rollout_id": text,
            "tokens": pa.list_(pa.int32()),
            "logprobs": pa.list_(pa.float64()),
            "segment_info": pa.list_(pa.struct({"is_trained": pa.bool_(), "length": pa.int32()})),
            "weight_versions": pa.list_(pa.struct({"index": pa.int32(), "version": text})),
            "routed_experts": pa.large_binary(),
            "routed_experts_dtype": text,
            "routed_experts_shape": pa.list_(pa.int32()),
            "images": pa.list_(image),
            "processed_images": pa.list_(processed),
            "exchanges": pa.list_(call),
            "parent": parent,
            "finish_reasons": texts,
            "sampling": texts,
            "flags": texts,
            "reward": pa.float64(),
            "metadata": text,
        }
    )


def _row(sequence: TrainingSequence) -> dict[str, Any]:
    record, experts = as_record(sequence), sequence.routed_experts
    return record | {
        "segment_info": [
            {"is_trained": trained, "length": length} for trained, length in sequence.segment_info
        ],
        "weight_versions": [{"index": at, "version": version} for at, version in sequence.weight_versions],
        "routed_experts": None if experts is None else experts.astype(_stored(experts)).tobytes(),
        "routed_experts_dtype": None if experts is None else experts.dtype.name,
        "processed_images": [
            made
            | {
                "processor": json.dumps(made["processor"]),
                "tensors": [{"name": name, **tensor} for name, tensor in made["tensors"].items()],
            }
            for made in record["processed_images"]
        ],
        "sampling": [json.dumps(parameters) for parameters in sequence.sampling],
        "metadata": json.dumps(sequence.metadata),
    }


def _record(row: Mapping[str, Any], images: dict[str, bytes]) -> dict[str, Any]:
    """The inverse of `_row`; `images` has the files of the rows before, and gets those of this one."""
    images |= {image["sha256"]: image["data"] for image in row["images"] if image["data"] is not None}
    experts = row["routed_experts"]
    if experts is not None:
        experts = np.frombuffer(experts, _DTYPES[row["routed_experts_dtype"]])
        experts = experts.reshape(row["routed_experts_shape"])
    return {
        **row,
        "tokens": np.array(row["tokens"], np.int32),
        "logprobs": np.array(row["logprobs"], np.float64),
        "segment_info": [(run["is_trained"], run["length"]) for run in row["segment_info"]],
        "weight_versions": [(span["index"], span["version"]) for span in row["weight_versions"]],
        "routed_experts": experts,
        "images": [image | {"data": images[image["sha256"]]} for image in row["images"]],
        "processed_images": [
            made
            | {
                "processor": loads(made["processor"].encode()).value,
                "tensors": {tensor["name"]: tensor for tensor in made["tensors"]},
            }
            for made in row["processed_images"]
        ],
        "sampling": [loads(text.encode()).value for text in row["sampling"]],
        "metadata": loads(row["metadata"].encode()).value,
    }


def _stored(experts: np.ndarray[Any, Any]) -> str:
    return _DTYPES[experts.dtype.name]


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise NotInstalled("the parquet format needs pyarrow", "parquet") from error
    return pyarrow.parquet
