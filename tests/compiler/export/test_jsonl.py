import base64
import json
import struct
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.support.routing import experts
from tests.support.sequences import SEQUENCE, WITH_IMAGES, any_sequences, sequence
from turnstile.compiler.errors import SequenceFileError
from turnstile.compiler.export import jsonl
from turnstile.compiler.export.jsonl import json_line
from turnstile.compiler.export.records import as_record
from turnstile.compiler.sequence import TrainingSequence

LINE = (
    b'{"sequence_id":"e1.0","group_id":"g","rollout_id":"r","tokens":[1,2,3,4,5],'
    b'"logprobs":[0.0,0.0,-0.5,0.0,-2.2836947441101074],'
    b'"segment_info":[[false,2],[true,1],[false,1],[true,1]],"weight_versions":[[0,"7"],[3,"8"]],'
    b'"routed_experts":null,"routed_experts_shape":null,"images":[],"processed_images":[],'
    b'"exchanges":[{"exchange_id":"e1","choice":0},{"exchange_id":"e2","choice":1}],"parent":null,'
    b'"finish_reasons":["stop","length"],"sampling":[{"temperature":0.5},{}],'
    b'"flags":["aborted","undelivered"],"reward":1.0,"metadata":{"task":"x"}}\n'
)


def written(path: Path, *sequences: TrainingSequence) -> Path:
    with jsonl.open_writer(path) as writer:
        for each in sequences:
            writer.write(each)
    return path


def test_a_sequence_is_a_line(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", SEQUENCE, SEQUENCE)
    assert path.read_bytes() == LINE + LINE


@given(any_sequences())
def test_what_was_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, any_sequence: TrainingSequence
) -> None:
    path = written(tmp_path_factory.mktemp("out") / "out.jsonl", any_sequence, SEQUENCE)
    lines = [json_line(as_record(read)) for read in jsonl.read(path)]
    assert lines == [json_line(as_record(any_sequence)), LINE]


def test_parameters_that_orjson_cannot_write_read_back(tmp_path: Path) -> None:
    strange = {"seed": 2**70, "stop": "\ud800"}
    (read,) = jsonl.read(written(tmp_path / "out.jsonl", sequence(sampling=(strange, {}))))
    assert read.sampling == (strange, {})
    assert read.tokens.tolist() == SEQUENCE.tokens.tolist()


@pytest.mark.parametrize("second", [LINE[:-20], b"[]\n", b"\n", b"\xff\n", b'{"tokens":[]}\n'])
def test_a_line_that_is_no_sequence_is_named(tmp_path: Path, second: bytes) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(LINE + second)
    with pytest.raises(SequenceFileError, match=r"out\.jsonl: line 2 is no training sequence"):
        list(jsonl.read(path))


@pytest.mark.parametrize(
    "fields",
    [
        {"flags": [1, "a"]},
        {"images": [{"sha256": "", "mime": "", "data": "", "token_span": ["0", 1]}]},
        {"processed_images": [{"sha256": "", "processor": {}, "tensors": []}]},
        {"processed_images": [{"sha256": "", "processor": {}, "tensors": {"x": {"data": "", "dtype": {}}}}]},
    ],
)
def test_a_line_with_a_field_of_another_type_is_named(tmp_path: Path, fields: dict[str, object]) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(json.dumps(json.loads(LINE) | fields))
    with pytest.raises(SequenceFileError, match=r"out\.jsonl: line 1 is no training sequence"):
        list(jsonl.read(path))


@pytest.mark.parametrize(("number", "dtype"), [(4, np.uint8), (300, np.uint16)])
def test_routed_experts_are_base64_of_little_endian_int32(
    tmp_path: Path, number: int, dtype: type[np.integer]
) -> None:
    routed = experts(1, 2, 3, number).astype(dtype)
    path = written(tmp_path / "out.jsonl", sequence(routed_experts=routed))
    line = json.loads(path.read_bytes())
    ids = [n + more for n in (1, 2, 3, number) for more in range(4)]
    assert b64decode(line["routed_experts"]) == struct.pack("<16i", *ids)
    assert line["routed_experts_shape"] == [4, 2, 2]
    (read,) = jsonl.read(path)
    assert read.routed_experts is not None
    assert (read.routed_experts.dtype, read.routed_experts.tolist()) == (dtype, routed.tolist())


def test_routed_experts_beside_parameters_that_orjson_cannot_write_read_back(tmp_path: Path) -> None:
    routed = experts(1, 2, 3, 4).astype(np.uint8)
    strange = sequence(routed_experts=routed, sampling=({"seed": 2**70}, {}))
    (read,) = jsonl.read(written(tmp_path / "out.jsonl", strange))
    assert read.routed_experts is not None
    assert (read.routed_experts.tolist(), read.routed_experts_shape) == (routed.tolist(), (4, 2, 2))


def test_rows_in_any_order_in_memory_are_written_row_by_row(tmp_path: Path) -> None:
    routed = experts(1, 2, 3, 4).astype(np.uint8)
    paths = [
        written(tmp_path / name, sequence(routed_experts=each))
        for name, each in (("a", routed), ("b", np.asfortranarray(routed)), ("c", routed[::-1].copy()[::-1]))
    ]
    assert len({path.read_bytes() for path in paths}) == 1


def test_files_of_images_and_values_of_tensors_are_base64(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", WITH_IMAGES)
    line = json.loads(path.read_bytes())
    (image, _), (processed,) = line["images"], line["processed_images"]
    shown, tensors = WITH_IMAGES.images[0], WITH_IMAGES.processed_images[0].tensors
    assert image == {
        "sha256": shown.sha256,
        "mime": "image/png",
        "data": base64.b64encode(shown.data).decode(),
        "token_span": [1, 2],
    }
    assert processed["tensors"]["pixel_values"] == {
        "dtype": "float32",
        "shape": [4, 3],
        "data": base64.b64encode(tensors["pixel_values"].astype("<f4").tobytes()).decode(),
    }
    (read,) = jsonl.read(path)
    assert read.images == WITH_IMAGES.images
    assert read.images[0].data == shown.data
