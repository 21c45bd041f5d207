"""A training sequence as the record that all formats hold, and back. The fields are the README's table."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        "images": sequence.images,
        "processed_images": sequence.processed_images,
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
    return TrainingSequence(
        sequence_id=record["sequence_id"],
        group_id=record["group_id"],
        rollout_id=record["rollout_id"],
        tokens=_tokens(record["tokens"]),
        logprobs=_logprobs(record["logprobs"]),
        segment_info=tuple((bool(is_trained), length) for is_trained, length in record["segment_info"]),
        weight_versions=tuple((index, version) for index, version in record["weight_versions"]),
        routed_experts=_routed_experts(record["routed_experts"], record["routed_experts_shape"]),
        images=tuple(record["images"]),
        processed_images=tuple(record["processed_images"]),
        exchanges=tuple(Call(**call) for call in record["exchanges"]),
        parent=None if record["parent"] is None else Parent(**record["parent"]),
        finish_reasons=tuple(record["finish_reasons"]),
        sampling=tuple(record["sampling"]),
        flags=tuple(record["flags"]),
        reward=record["reward"],
        metadata=record["metadata"],
    )


def _tokens(values: NDArray[np.int32] | Sequence[Any]) -> NDArray[np.int32]:
    return values if isinstance(values, np.ndarray) else ids_from_list(values)


def _routed_experts(values: NDArray[Any] | str | None, shape: Sequence[int] | None) -> Experts | None:
    """An array, or base64 of little-endian int32."""
    if values is None or isinstance(values, np.ndarray):
        return values
    if shape is None or len(shape) != 3:
        raise ValueError(f"routed_experts has the shape {shape}, expected [rows, layers, experts a token]")
    return narrowed(np.frombuffer(b64decode(values, validate=True), "<i4").reshape(shape))


def _logprobs(values: NDArray[np.float64] | Sequence[Any]) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        return values
    if not set(map(type, values)) <= {int, float}:
        raise TypeError("a logprob is no number")
    return np.array(values, np.float64)
