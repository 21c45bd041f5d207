"""Which types the fields of a record have, whatever file it was read from.

What becomes an array or bytes is checked where it is made one: `tokens`, `logprobs`, routing, files, tensors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class _Maybe(NamedTuple):
    """Null, or what is expected else."""

    expected: Any


# A type is itself, a list has any number of such items, a tuple one item of each, a mapping these fields.
_EXPECTED: Mapping[str, Any] = {
    "sequence_id": str,
    "group_id": str,
    "rollout_id": _Maybe(str),
    "segment_info": [(bool, int)],
    "weight_versions": [(int, str)],
    "routed_experts_shape": _Maybe([int]),
    "images": [{"sha256": str, "mime": str, "token_span": (int, int)}],
    "processed_images": [{"sha256": str, "processor": dict, "tensors": dict}],
    "exchanges": [{"exchange_id": str, "choice": int}],
    "parent": _Maybe({"sequence_id": str, "shared_tokens": int, "cause": str}),
    "finish_reasons": [str],
    "sampling": [dict],
    "flags": [str],
    "reward": _Maybe(float),
    "metadata": dict,
}


def check_types(record: Any) -> None:
    """Raises TypeError for a field of another type, KeyError for one that is missing."""
    _check(record, _EXPECTED, "the record")


def _check(value: Any, expected: Any, place: str) -> None:
    if isinstance(expected, _Maybe):
        if value is not None:
            _check(value, expected.expected, place)
    elif isinstance(expected, Mapping):
        _check(value, dict, place)
        for name, inner in expected.items():
            _check(value[name], inner, name)
    elif isinstance(expected, list | tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{place} is a {type(value).__name__}, expected a list")
        if isinstance(expected, tuple) and len(value) != len(expected):
            raise TypeError(f"{place} has {len(value)} items, expected {len(expected)}")
        every = expected if isinstance(expected, tuple) else expected * len(value)
        for at, (item, inner) in enumerate(zip(value, every, strict=True)):
            _check(item, inner, f"{place}[{at}]")
    elif type(value) is not expected and (expected, type(value)) != (float, int):
        raise TypeError(f"{place} is a {type(value).__name__}, expected {expected.__name__}")
