"""Sampling parameters as they were sent, as far as every output format can hold them.

JSON has no NaN and no infinity, and readers of both formats end at some depth: what is beyond is left out,
and said.
"""

import math
from collections.abc import Mapping
from typing import Any

from turnstile.addon.backends.reading import sampling_parameters
from turnstile.compiler.finding import Finding, Place

MAX_DEPTH = 100  # of objects and lists in one another; orjson writes 254, msgpack 511


def sampling_of(fields: Mapping[str, Any], place: Place) -> tuple[dict[str, Any], list[Finding]]:
    """The sampling parameters among the fields of a request; a finding when some are left out."""
    sent = sampling_parameters(fields)
    faults = {name: fault for name, value in sent.items() if (fault := _fault(value, MAX_DEPTH))}
    if not faults:
        return sent, []
    message = f"left out of sampling: {', '.join(f'{name} ({fault})' for name, fault in faults.items())}"
    kept = {name: value for name, value in sent.items() if name not in faults}
    return kept, [place.warning("sampling_invalid", message)]


def _fault(value: Any, depth: int) -> str:
    """What keeps a value from being written; "" for nothing."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"holds {value}"
    if not isinstance(value, dict | list):
        return ""
    if not depth:
        return f"is nested more than {MAX_DEPTH} deep"
    inner = value.values() if isinstance(value, dict) else value
    return next((fault for each in inner if (fault := _fault(each, depth - 1))), "")
