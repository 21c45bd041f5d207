"""Logprobs of sampled ids: exactly what the backend gave, or unknown; never a stand-in value.

A value that is no logprob (null, NaN, an infinity, above zero, no number) makes its position unknown, and
a finding; the positions after it stay where they are. 0.0 is a probability of one and counts as such.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.finding import Finding, Place

Logprobs = NDArray[np.float64]


def logprobs_of(
    sources: Mapping[str, Sequence[Any]], count: int, place: Place
) -> tuple[Logprobs | None, list[Finding]]:
    """The logprobs [O] of `count` sampled ids, NaN where unknown; None where not one is known, and why."""
    given = {source: values for source, values in sources.items() if values}
    if not given:
        return None, [place.error("missing_logprobs", f"{count} sampled ids and not one logprob")]
    wrong_size = [
        f"{len(values)} logprobs in {source}" for source, values in given.items() if len(values) != count
    ]
    if wrong_size:
        message = f"{count} sampled ids, {', '.join(wrong_size)}; nothing tells which of them belong together"
        return None, [place.error("logprob_count_mismatch", message)]
    (first, values), *others = given.items()
    if _are_logprobs(values) and all(other_values == values for _, other_values in others):
        return np.array(values, np.float64), []
    logprobs_T = _as_array(values)
    for other, other_values in others:
        if other_values != values:
            other_T = _as_array(other_values)
            if fault := _conflict((first, logprobs_T), (other, other_T)):
                return None, [place.error("logprob_invalid", fault)]
            logprobs_T[np.isnan(other_T)] = np.nan
    unknown = np.isnan(logprobs_T)
    if not unknown.any():
        return logprobs_T, []
    finding = place.error("logprob_invalid", _described(np.flatnonzero(unknown), given))
    return (None if unknown.all() else logprobs_T), [finding]


def _are_logprobs(values: Sequence[Any]) -> bool:
    """Whether each of them is one; a single NaN or infinity makes the sum one."""
    return set(map(type, values)) == {float} and max(values) <= 0 and math.isfinite(sum(values))


def _as_array(values: Sequence[Any]) -> Logprobs:
    """The values [O], NaN for each that is no logprob."""
    logprobs_T = np.array([_as_float(value) for value in values], np.float64)
    logprobs_T[~((logprobs_T <= 0) & (logprobs_T > -np.inf))] = np.nan
    return logprobs_T


def _as_float(value: Any) -> float:
    try:
        return float(value) if type(value) in (int, float) else math.nan
    except OverflowError:  # an integer beyond all floats
        return math.nan


def _conflict(one: tuple[str, Logprobs], other: tuple[str, Logprobs]) -> str:
    """Where two sources give different logprobs of one id, in words; "" for nowhere."""
    (source, logprobs_T), (other_source, other_T) = one, other
    differ = np.flatnonzero((logprobs_T != other_T) & ~np.isnan(logprobs_T) & ~np.isnan(other_T))
    if not len(differ):
        return ""
    at = differ[0]
    found = f"{logprobs_T[at]} in {source}, {other_T[at]} in {other_source}"
    return f"the logprob of sampled id {at} is {found}; they cannot both be right"


def _described(unknown: NDArray[np.intp], given: Mapping[str, Sequence[Any]]) -> str:
    first = int(unknown[0])
    found = ", ".join(f"{_spelled(values[first])} in {source}" for source, values in given.items())
    others = f", and those of {len(unknown) - 1} more are none either" if len(unknown) > 1 else ""
    return f"the logprob of sampled id {first} is {found}, expected a finite number not above 0{others}"


def _spelled(value: Any) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
