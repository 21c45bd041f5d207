import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given

from tests.support.sequences import SEQUENCE, WITH_IMAGES, any_sequences, sequence
from turnstile.compiler.errors import NotInstalled, SequenceFileError
from turnstile.compiler.export import parquet, read_sequences
from turnstile.compiler.export.jsonl import json_line
from turnstile.compiler.export.records import as_record
from turnstile.compiler.sequence import Parent, TrainingSequence

EXPERTS = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)


def written(path: Path, *sequences: TrainingSequence) -> Path:
    with parquet.open_writer(path) as writer:
        for each in sequences:
            writer.write(each)
    return path


def test_a_row_has_the_fields_of_the_sequence(tmp_path: Path) -> None:
    child = sequence(parent=Parent("e0.0", 2, "sibling"), routed_experts=EXPERTS, reward=None)
    table = pyarrow.parquet.read_table(written(tmp_path / "out.parquet", SEQUENCE, child))
    first, second = table.to_pylist()
    assert [*first] == [
        *("sequence_id", "group_id", "rollout_id", "tokens", "logprobs", "segment_info", "weight_versions"),
        *("routed_experts", "routed_experts_dtype", "routed_experts_shape", "images"),
        *("processed_images", "exchanges", "parent"),
        *("finish_reasons", "sampling", "flags", "reward", "metadata"),
    ]
    assert (first["tokens"], first["logprobs"]) == (SEQUENCE.tokens.tolist(), SEQUENCE.logprobs.tolist())
    assert first["weight_versions"] == [{"index": 0, "version": "7"}, {"index": 3, "version": "8"}]
    assert (first["parent"], first["routed_experts"], first["reward"]) == (None, None, 1.0)
    assert (first["sampling"], first["metadata"]) == (['{"temperature": 0.5}', "{}"], '{"task": "x"}')
    assert second["routed_experts"] == EXPERTS.tobytes()
    assert (second["routed_experts_dtype"], second["routed_experts_shape"]) == ("uint8", [4, 3, 2])
    assert second["parent"] == {"sequence_id": "e0.0", "shared_tokens": 2, "cause": "sibling"}


@given(any_sequences())
def test_what_was_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, any_sequence: TrainingSequence
) -> None:
    path = written(tmp_path_factory.mktemp("out") / "out.parquet", any_sequence, SEQUENCE)
    assert [json_line(as_record(each)) for each in read_sequences(path)] == [
        json_line(as_record(each)) for each in (any_sequence, SEQUENCE)
    ]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_routing_reads_back_as_it_was(tmp_path: Path, dtype: type[np.unsignedinteger]) -> None:
    experts = EXPERTS.astype(dtype) + dtype(np.iinfo(dtype).max - 30)
    (read,) = parquet.read(written(tmp_path / "out.parquet", sequence(routed_experts=experts)))
    assert read.routed_experts is not None
    assert (read.routed_experts.dtype, read.routed_experts.tolist()) == (dtype, experts.tolist())


def test_an_image_stands_once_in_a_file_and_is_read_with_every_sequence(tmp_path: Path) -> None:
    path = written(tmp_path / "out.parquet", WITH_IMAGES, WITH_IMAGES)
    first, second = pyarrow.parquet.read_table(path).to_pylist()
    files = {image.sha256: image.data for image in WITH_IMAGES.images}
    assert {image["sha256"]: image["data"] for image in first["images"] if image["data"]} == files
    assert [image["data"] for image in second["images"]] == [None] * len(WITH_IMAGES.images)
    for read in parquet.read(path):
        assert [(image, image.data) for image in read.images] == [
            (image, image.data) for image in WITH_IMAGES.images
        ]
        ((before,), (after,)) = WITH_IMAGES.processed_images, read.processed_images
        assert (after.sha256, after.processor) == (before.sha256, before.processor)
        for name, tensor in before.tensors.items():
            assert np.array_equal(after.tensors[name], tensor)
            assert after.tensors[name].dtype == tensor.dtype


def test_more_sequences_than_a_row_group_holds_keep_their_order(tmp_path: Path) -> None:
    many = [sequence(sequence_id=f"e{number}.0") for number in range(parquet.ROWS_A_GROUP + 3)]
    path = written(tmp_path / "out.parquet", *many)
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 2
    assert [each.sequence_id for each in parquet.read(path)] == [each.sequence_id for each in many]


def test_a_file_without_sequences_is_one(tmp_path: Path) -> None:
    assert list(read_sequences(written(tmp_path / "out.parquet"))) == []


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "out.parquet", SEQUENCE)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SequenceFileError, match="cannot be read behind its first 0 sequences"):
        list(read_sequences(path))


def test_a_row_without_metadata_is_refused(tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(written(tmp_path / "out.parquet", SEQUENCE))
    at = table.schema.get_field_index("metadata")
    nothing = table.set_column(at, "metadata", pyarrow.array([None], pyarrow.string()))
    pyarrow.parquet.write_table(nothing, tmp_path / "other.parquet")
    with pytest.raises(
        SequenceFileError, match="cannot be read behind its first 0 sequences: AttributeError"
    ):
        list(read_sequences(tmp_path / "other.parquet"))


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
    with pytest.raises(SequenceFileError, match="KeyError"):
        list(read_sequences(path))


def test_without_pyarrow_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with (
        pytest.raises(NotInstalled, match=r"pyarrow: .* \(in a clone: pip install '\.\[parquet\]'\)$"),
        parquet.open_writer(tmp_path / "out.parquet"),
    ):
        pass
