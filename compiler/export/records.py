"""A training sequence as the record that all formats hold, and back. The fields are the README's table.

An image's file and a tensor's values are bytes here; a format that holds text writes them in base64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from turnstile.compiler.export.record_types import check_types
from turnstile.compiler.images.image import ProcessedImage, PromptImage
from turnstile.compiler.routing.rows import Experts, narrowed
from turnstile.compiler.sequence import Call, Parent, TrainingSequence
from turnstile.compiler.token_ids import ids_from_list


def as_record(sequence: TrainingSequence) -> dict[str, Any]:
    """The fields in their order.

    `tokens`, `logprobs` and, where it is known, `routed_experts` are arrays, each format writes them its way.
    """
    return {
        "sequence_id": sequence.sequence_id,
        "group_id": sequence.group_id,
        "rollout_id": sequence.rollout_id,
        "tokens": sequence.tokens,
        "logprobs": sequence.logprobs,
        "segment_info": sequence.segment_info,
        "weight_versions": sequence.weight_versions,
        "routed_experts": sequence.routed_experts,  # an array or None
        "routed_experts_shape": sequence.routed_experts_shape,
        "images": [asdict(image) for image in sequence.images],
        "processed_images": [_processed_record(processed) for processed in sequence.processed_images],
        "exchanges": [asdict(call) for call in sequence.exchanges],
        "parent": None if sequence.parent is None else asdict(sequence.parent),
        "finish_reasons": sequence.finish_reasons,
        "sampling": sequence.sampling,
        "flags": sequence.flags,
        "reward": sequence.reward,
        "metadata": sequence.metadata,
    }


def from_record(record: Mapping[str, Any]) -> TrainingSequence:
    """The inverse of `as_record`, of arrays or lists.

    Raises ValueError, KeyError or TypeError for what is no sequence.
    """
    check_types(record)
    return TrainingSequence(
        sequence_id=record["sequence_id"],
        group_id=record["group_id"],
        rollout_id=record["rollout_id"],
        tokens=_tokens(record["tokens"]),
        logprobs=_logprobs(record["logprobs"]),
        segment_info=tuple((is_trained, length) for is_trained, length in record["segment_info"]),
        weight_versions=tuple((index, version) for index, version in record["weight_versions"]),
        routed_experts=_routed_experts(record["routed_experts"], record["routed_experts_shape"]),
        images=tuple(_image(image) for image in record["images"]),
        processed_images=tuple(_processed(processed) for processed in record["processed_images"]),
        exchanges=tuple(Call(**call) for call in record["exchanges"]),
        parent=None if record["parent"] is None else Parent(**record["parent"]),
        finish_reasons=tuple(record["finish_reasons"]),
        sampling=tuple(record["sampling"]),
        flags=tuple(record["flags"]),
        reward=record["reward"],
        metadata=record["metadata"],
    )


def _tokens(values: NDArray[np.int32] | Sequence[Any]) -> NDArray[np.int32]:
    if not isinstance(values, np.ndarray):
        return ids_from_list(values)
    return _row_of(np.int32, values, "tokens")


def _routed_experts(values: NDArray[Any] | str | None, shape: Sequence[int] | None) -> Experts | None:
    """An array, or base64 of little-endian int32."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "iu":
            raise TypeError(f"routed_experts are {values.dtype}, expected integers")
        return values
    if shape is None or len(shape) != 3:
        raise ValueError(f"routed_experts has the shape {shape}, expected [rows, layers, experts a token]")
    experts = np.frombuffer(pybase64.b64decode(values, validate=True), "<i4").reshape(shape)
    if experts.size and not 0 <= int(experts.min()) <= int(experts.max()) < 1 << 16:
        raise ValueError("routed_experts names an expert that is not from 0 to 65,535")
    return narrowed(experts)


def _logprobs(values: NDArray[np.float64] | Sequence[Any]) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return _row_of(np.float64, values, "logprobs")
    if not set(map(type, values)) <= {int, float}:
        raise TypeError("a logprob is no number")
    return np.array(values, np.float64)


def _row_of(dtype: type[np.generic], values: NDArray[Any], name: str) -> NDArray[Any]:
    if values.dtype != dtype or values.ndim != 1:
        raise TypeError(
            f"{name} are {values.dtype} in {values.ndim} dimensions, expected {dtype.__name__} in 1"
        )
    return values


def _image(record: Mapping[str, Any]) -> PromptImage:
    start, size = record["token_span"]
    return PromptImage(record["sha256"], record["mime"], _bytes(record["data"]), (start, size))


def _processed_record(processed: ProcessedImage) -> dict[str, Any]:
    tensors = {name: _tensor_record(tensor) for name, tensor in processed.tensors.items()}
    return {"sha256": processed.sha256, "processor": processed.processor, "tensors": tensors}


def _processed(record: Mapping[str, Any]) -> ProcessedImage:
    tensors = {name: _tensor(tensor) for name, tensor in record["tensors"].items()}
    return ProcessedImage(record["sha256"], record["processor"], tensors)


def _tensor_record(tensor: NDArray[np.generic]) -> dict[str, Any]:
    """Values little-endian in C order; `dtype` is numpy's name, which says nothing of the order of bytes."""
    little = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    return {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "data": little.tobytes()}


def _tensor(record: Mapping[str, Any]) -> NDArray[np.generic]:
    stored = np.frombuffer(_bytes(record["data"]), np.dtype(record["dtype"]).newbyteorder("<"))
    return stored.reshape(record["shape"]).astype(record["dtype"], copy=False)


def _bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else pybase64.b64decode(data, validate=True)
