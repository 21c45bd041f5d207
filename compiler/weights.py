"""Which weights sampled a turn's ids, as far as the backend says so.

Spans that the backend reports (SGLang from 0.5.19 on) are taken only when they cover the sampled ids
without a gap; else a single version for the whole turn; else the version is unknown. It is never
taken from anything but the reply itself.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from turnstile.compiler.finding import Finding, Place

Spans = tuple[tuple[int, str], ...]  # (index into the sampled ids, version from there on)


def weight_spans_of(
    version: Any, spans: Sequence[Any] | None, count: int, place: Place
) -> tuple[Spans, list[Finding]]:
    """The spans over `count` sampled ids, neighbours with the same version joined; () when unknown."""
    if not spans:
        return ((0, version),) if isinstance(version, str) else (), []
    fault = _fault(spans, count)
    if fault:
        return (), [
            place.warning("weight_versions_invalid", f"{fault}; the weight version of the turn is unknown")
        ]
    starts = [(span["start"], span["version"]) for span in spans]
    return tuple(starts[:1] + [after for before, after in pairwise(starts) if before[1] != after[1]]), []


def _fault(spans: Sequence[Any], count: int) -> str:
    """What keeps the spans from covering 0..count one after the other; "" when they do."""
    at = 0
    for index, span in enumerate(spans):
        if not isinstance(span, dict) or not isinstance(span.get("version"), str):
            return f"weight span {index} names no version"
        start, end = span.get("start"), span.get("end")
        if type(start) is not int or type(end) is not int or start != at or end <= start:
            return f"weight span {index} is {start!r} to {end!r}, expected it to begin at {at}"
        at = end
    return "" if at == count else f"weight spans cover {at} of {count} sampled ids"
