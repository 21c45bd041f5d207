import struct
from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from tests.support.routing import experts
from tests.support.sequences import SEQUENCE, WITH_IMAGES, sequence
from turnstile.compiler.export.records import as_record, from_record
from turnstile.compiler.sequence import Parent

RECORD: dict[str, Any] = {
    "sequence_id": "e1.0",
    "group_id": "g",
    "rollout_id": "r",
    "tokens": [1, 2, 3, 4, 5],
    "logprobs": [0.0, 0.0, -0.5, 0.0, -2.2836947441101074],
    "segment_info": [[False, 2], [True, 1], [False, 1], [True, 1]],
    "weight_versions": [[0, "7"], [3, "8"]],
    "routed_experts": None,
    "routed_experts_shape": None,
    "images": [],
    "processed_images": [],
    "exchanges": [{"exchange_id": "e1", "choice": 0}, {"exchange_id": "e2", "choice": 1}],
    "parent": None,
    "finish_reasons": ["stop", "length"],
    "sampling": [{"temperature": 0.5}, {}],
    "flags": ["aborted", "undelivered"],
    "reward": 1.0,
    "metadata": {"task": "x"},
}


def plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(held) for name, held in value.items()}
    return [plain(held) for held in value] if isinstance(value, list | tuple) else value


def test_a_record_has_every_field_in_its_order() -> None:
    assert list(plain(as_record(SEQUENCE)).items()) == list(RECORD.items())


def test_a_parent_is_an_object() -> None:
    record = as_record(sequence(parent=Parent("e0.0", 2, "sibling")))
    assert record["parent"] == {"sequence_id": "e0.0", "shared_tokens": 2, "cause": "sibling"}
    assert from_record(record).parent == Parent("e0.0", 2, "sibling")


def test_a_record_reads_back_as_it_was() -> None:
    assert plain(as_record(from_record(RECORD))) == RECORD


@pytest.mark.parametrize(
    "fault",
    [
        {"tokens": [1, 2.0]},
        {"tokens": [1, -1.5]},
        {"logprobs": [0.0, None]},
        {"logprobs": ["0.0"]},
        {"segment_info": [[True]]},
        {"exchanges": [{"exchange_id": "e1"}]},
        {"parent": {"sequence_id": "e0.0"}},
    ],
)
def test_what_is_no_sequence_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_record(RECORD | fault)
    with pytest.raises(KeyError):
        from_record({name: RECORD[name] for name in RECORD if name not in fault})


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"tokens": np.array([1.0])}, "tokens are float64 in 1 dimensions, expected int32 in 1"),
        ({"logprobs": np.zeros((5, 1))}, "logprobs are float64 in 2 dimensions, expected float64 in 1"),
        ({"routed_experts": np.zeros((4, 1, 2))}, "routed_experts are float64, expected integers"),
    ],
)
def test_an_array_of_another_type_is_named(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_record(RECORD | fault)


def written(*ids: int) -> str:
    """Base64 of little-endian int32."""
    return b64encode(struct.pack(f"<{len(ids)}i", *ids)).decode()


def test_routed_experts_are_an_array_with_its_shape_beside_it() -> None:
    routed = experts(1, 2, 3, 4).astype(np.uint8)
    record = as_record(sequence(routed_experts=routed))
    assert record["routed_experts"] is routed
    assert record["routed_experts_shape"] == (4, 2, 2)


@pytest.mark.parametrize(("ids", "dtype"), [([0, 255, 3, 4], np.uint8), ([0, 256, 65_535, 4], np.uint16)])
def test_routed_experts_are_read_into_the_smallest_type(ids: list[int], dtype: type[np.integer]) -> None:
    record = RECORD | {"routed_experts": written(*ids), "routed_experts_shape": [2, 1, 2]}
    read = from_record(record).routed_experts
    assert read is not None
    assert (read.dtype, read.tolist()) == (dtype, [[ids[:2]], [ids[2:]]])


@pytest.mark.parametrize(
    "fault",
    [
        {"routed_experts_shape": None},
        {"routed_experts_shape": [8]},
        {"routed_experts_shape": [2, 2]},
        {"routed_experts_shape": [3, 1, 2]},
        {"routed_experts_shape": [2, 1, 1]},
        {"routed_experts_shape": [2.0, 1, 2]},
        {"routed_experts": "no base64"},
        {"routed_experts": written(1, 2, 3, 4)[:-4]},
        {"routed_experts": [1, 2, 3, 4]},
        {"routed_experts": written(1, 2, 3, -1)},
        {"routed_experts": written(1, 2, 65_536, 4)},
    ],
)
def test_what_are_no_routed_experts_is_refused(fault: dict[str, Any]) -> None:
    routed = {"routed_experts": written(1, 2, 3, 4), "routed_experts_shape": [2, 1, 2]}
    assert from_record(RECORD | routed).routed_experts is not None
    with pytest.raises((ValueError, TypeError)):
        from_record(RECORD | routed | fault)


def test_images_and_tensors_read_back_as_they_were() -> None:
    read = from_record(as_record(WITH_IMAGES))
    assert read.images == WITH_IMAGES.images
    assert read.images[0].data == WITH_IMAGES.images[0].data
    ((before,), (after,)) = WITH_IMAGES.processed_images, read.processed_images
    assert (after.sha256, after.processor) == (before.sha256, before.processor)
    for name, tensor in before.tensors.items():
        assert np.array_equal(after.tensors[name], tensor)
        assert after.tensors[name].dtype == tensor.dtype
