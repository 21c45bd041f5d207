import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zstandard
from hypothesis import given

from tests.support.routing import experts
from tests.support.sequences import SEQUENCE, WITH_IMAGES, any_sequences, sequence
from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export import tseq
from turnstile.compiler.export.jsonl import json_line
from turnstile.compiler.export.records import as_record
from turnstile.compiler.sequence import TrainingSequence

HEADER = {"format": "turnstile sequences", "version": 2}


def written(path: Path, *sequences: TrainingSequence) -> Path:
    with tseq.open_writer(path) as writer:
        for each in sequences:
            writer.write(each)
    return path


def maps(path: Path) -> list[Any]:
    """What a reader without turnstile finds."""
    with path.open("rb") as file:
        unpacker = msgpack.Unpacker()
        unpacker.feed(zstandard.ZstdDecompressor().stream_reader(file).read())
        return list(unpacker)


def test_a_file_is_a_header_and_a_map_a_sequence(tmp_path: Path) -> None:
    header, first, second = maps(written(tmp_path / "out.tseq", SEQUENCE, SEQUENCE))
    assert (header, first) == (HEADER, second)
    assert list(first) == list(as_record(SEQUENCE))
    assert first["tokens"] == {"dtype": "<i4", "shape": [5], "data": np.arange(1, 6, dtype="<i4").tobytes()}
    assert first["logprobs"] == {
        "dtype": "<f8",
        "shape": [5],
        "data": SEQUENCE.logprobs.astype("<f8").tobytes(),
    }
    assert first["segment_info"] == [[False, 2], [True, 1], [False, 1], [True, 1]]


@given(any_sequences())
def test_what_was_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, any_sequence: TrainingSequence
) -> None:
    path = written(tmp_path_factory.mktemp("out") / "out.tseq", any_sequence, SEQUENCE)
    read = list(tseq.read(path))
    assert [json_line(as_record(each)) for each in read] == [
        json_line(as_record(each)) for each in (any_sequence, SEQUENCE)
    ]
    assert [(each.tokens.dtype, each.logprobs.dtype) for each in read] == [
        (np.dtype(np.int32), np.dtype(np.float64))
    ] * 2


def test_parameters_that_msgpack_has_no_type_for_read_back(tmp_path: Path) -> None:
    strange = {"seed": 2**70, "stop": "\ud800"}
    (read,) = tseq.read(written(tmp_path / "out.tseq", sequence(sampling=(strange, {}))))
    assert read.sampling == (strange, {})


@pytest.mark.parametrize("cut", [1, 50, 150])
def test_a_file_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "out.tseq", SEQUENCE, SEQUENCE)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SequenceFileError, match="the file is cut off"):
        list(tseq.read(path))


def test_a_file_with_something_behind_its_end_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "out.tseq", SEQUENCE)
    path.write_bytes(path.read_bytes() + b"\0" * (1 << 17))
    with pytest.raises(SequenceFileError, match="behind"):
        list(tseq.read(path))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"format": "other"}], "is zstd and holds no training sequences"),
        ([HEADER | {"version": 3}], "has version 3, this one reads up to 2"),
        ([HEADER, {"images": [], "tokens": []}], "cannot be read behind its first 0 sequences: TypeError"),
        ([HEADER, {"images": [], "tokens": {}}], "cannot be read behind its first 0 sequences: KeyError"),
        (
            [HEADER, {"images": [{"sha256": "x"}]}],
            "cannot be read behind its first 0 sequences: KeyError",
        ),
        ([HEADER, {}], "cannot be read behind its first 0 sequences: KeyError"),
        ([HEADER, 7], "cannot be read behind its first 0 sequences: TypeError"),
        ([HEADER, msgpack.ExtType(9, b"")], "unknown msgpack extension 9"),
        ([], "is zstd and holds no training sequences"),
    ],
)
def test_what_is_no_file_of_sequences_is_refused(tmp_path: Path, items: list[Any], message: str) -> None:
    path = tmp_path / "out.tseq"
    path.write_bytes(zstandard.compress(b"".join(msgpack.packb(item) for item in items)))
    with pytest.raises(SequenceFileError, match=message):
        list(tseq.read(path))


@pytest.mark.parametrize(
    "fields",
    [
        {"processed_images": [{"sha256": "", "processor": {}, "tensors": []}]},
        {"flags": [1, "a"]},
        {"tokens": {"dtype": "<f8", "shape": [0], "data": b""}},
    ],
)
def test_a_sequence_with_a_field_of_another_type_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    header, record = maps(written(tmp_path / "out.tseq", SEQUENCE))
    path = tmp_path / "other.tseq"
    path.write_bytes(zstandard.compress(b"".join(map(msgpack.packb, (header, record | fields)))))
    with pytest.raises(SequenceFileError, match="cannot be read behind its first 0 sequences: TypeError"):
        list(tseq.read(path))


def test_the_same_sequences_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = (written(tmp_path / name, SEQUENCE).read_bytes() for name in ("a.tseq", "b.tseq"))
    assert one == other


def test_what_a_harness_sent_is_no_array_however_it_looks(tmp_path: Path) -> None:
    sent = {"custom_params": {"dtype": "<i4", "shape": [1], "data": "AAAA"}}
    path = written(tmp_path / "out.tseq", replace(SEQUENCE, sampling=(sent, {})))
    (found,) = tseq.read(path)
    assert found.sampling == (sent, {})


@pytest.mark.parametrize(("number", "dtype", "name"), [(4, np.uint8, "|u1"), (300, np.uint16, "<u2")])
def test_routed_experts_are_an_array_of_the_smallest_type(
    tmp_path: Path, number: int, dtype: type[np.integer], name: str
) -> None:
    routed = experts(1, 2, 3, number).astype(dtype)
    path = written(tmp_path / "out.tseq", sequence(routed_experts=routed), SEQUENCE)
    _, first, second = maps(path)
    ids = [n + more for n in (1, 2, 3, number) for more in range(4)]
    data = struct.pack("<16" + {"|u1": "B", "<u2": "H"}[name], *ids)
    assert first["routed_experts"] == {"dtype": name, "shape": [4, 2, 2], "data": data}
    assert first["routed_experts_shape"] == [4, 2, 2]
    assert (second["routed_experts"], second["routed_experts_shape"]) == (None, None)
    read, without = tseq.read(path)
    assert read.routed_experts is not None
    assert (read.routed_experts.dtype, read.routed_experts.tolist()) == (dtype, routed.tolist())
    assert (read.routed_experts_shape, without.routed_experts) == ((4, 2, 2), None)


def test_rows_in_any_order_in_memory_are_written_row_by_row(tmp_path: Path) -> None:
    routed = experts(1, 2, 3, 4).astype(np.uint16)
    one, other = (
        written(tmp_path / name, sequence(routed_experts=each)).read_bytes()
        for name, each in (("a.tseq", routed), ("b.tseq", np.asfortranarray(routed)))
    )
    assert one == other


def test_an_image_stands_once_however_many_sequences_have_it(tmp_path: Path) -> None:
    path = written(tmp_path / "out.tseq", WITH_IMAGES, replace(WITH_IMAGES, sequence_id="e2.0"))
    _, image, *records = maps(path)
    (shown,) = {each.sha256: each for each in WITH_IMAGES.images}.values()
    assert image == {"image": shown.sha256, "data": shown.data}
    assert [list(each) for record in records for each in record["images"]] == [
        ["sha256", "mime", "token_span"]
    ] * 4
    assert records[0]["processed_images"][0]["tensors"]["image_grid_thw"] == {
        "dtype": "int64",
        "shape": [1, 3],
        "data": np.array([[1, 2, 2]], "<i8").tobytes(),
    }
    assert [each.images for each in tseq.read(path)] == [WITH_IMAGES.images] * 2


def test_a_file_of_version_1_reads(tmp_path: Path) -> None:
    _, record = maps(written(tmp_path / "new.tseq", SEQUENCE))
    old = [HEADER | {"version": 1}, record]
    (tmp_path / "old.tseq").write_bytes(zstandard.compress(b"".join(map(msgpack.packb, old))))
    (read,) = tseq.read(tmp_path / "old.tseq")
    assert json_line(as_record(read)) == json_line(as_record(SEQUENCE))
