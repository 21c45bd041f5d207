"""Which weights sampled a turn's ids, as far as the backend says so.

Spans that the backend reports (SGLang from 0.5.19 on) are taken only when they cover the sampled ids
without a gap; where it reports none, a single version for the whole turn; else the version is unknown.
A single version is what the backend had when the answer was done, and tells nothing of weights that changed
before: where readings around the answer (WeightReadings) tell another one, it is not believed.
Several places that tell spans, or a single version, must tell the same. A single version beside spans
should be that of the last one; where it is not the spans hold, for the scheduler makes them and the single
version is what one of several tokenizer processes believes. Nothing but the reply itself counts.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from turnstile.compiler.finding import Finding, Place

Spans = tuple[tuple[int, str], ...]  # (index into the sampled ids, version from there on)


def weight_spans_of(
    versions: Mapping[str, Any],
    spans: Mapping[str, Any],
    count: int,
    place: Place,
    versions_read: Sequence[str] = (),
) -> tuple[Spans, list[Finding]]:
    """The spans over `count` sampled ids, neighbours with the same version joined; () when unknown.

    Both mappings are by the place in the reply, as in ChoiceReading. `versions_read` are those around the
    exchange; that there are several is for the caller to say.
    """
    told = {source: found for source, found in spans.items() if found != []}
    faults = [fault for source, found in told.items() if (fault := _fault(source, found, count))]
    fault = faults[0] if faults else _conflict(versions, told) or _misread(versions, told, versions_read)
    if fault:
        message = f"{fault}; the weight version of the turn is unknown"
        return (), [place.warning("weight_versions_invalid", message)]
    if not told:
        is_told = versions and len(versions_read) < 2
        return ((0, next(iter(versions.values()))),) if is_told else (), []
    source, reported = next(iter(told.items()))
    starts = [(span["start"], span["version"]) for span in reported]
    joined = starts[:1] + [after for before, after in pairwise(starts) if before[1] != after[1]]
    return tuple(joined), [
        place.warning(
            "weight_versions_invalid", f"{one} is {version!r}, but the last of {source} is {starts[-1][1]!r}"
        )
        for one, version in versions.items()
        if version != starts[-1][1]
    ]


def _fault(source: str, spans: Any, count: int) -> str:
    """What keeps the spans from covering 0..count one after the other; "" when they do."""
    if not isinstance(spans, list):
        return f"{source} is a {type(spans).__name__}, expected a list of spans"
    at = 0
    for index, span in enumerate(spans):
        if not isinstance(span, dict) or not isinstance(span.get("version"), str):
            return f"weight span {index} names no version"
        start, end = span.get("start"), span.get("end")
        if type(start) is not int or type(end) is not int or start != at or end <= start:
            return (
                f"weight span {index} is {_spelled(start)} to {_spelled(end)}, expected it to begin at {at}"
            )
        at = end
    return "" if at == count else f"weight spans cover {at} of {count} sampled ids"


def _conflict(versions: Mapping[str, Any], spans: Mapping[str, Sequence[Any]]) -> str:
    """Where two places tell different versions, in words; "" for nowhere."""
    wrong = [source for source, version in versions.items() if not isinstance(version, str)]
    if wrong:
        return f"{wrong[0]} is a {type(versions[wrong[0]]).__name__}, expected a text"
    (first, *others) = spans or [""]
    for other in others:
        if spans[other] != spans[first]:
            return f"{first} and {other} differ"
    for (one, version), (other, other_version) in pairwise(versions.items()):
        if version != other_version and not spans:
            return f"{one} is {version!r}, {other} is {other_version!r}"
    return ""


def _misread(versions: Mapping[str, Any], spans: Mapping[str, Any], versions_read: Sequence[str]) -> str:
    """Where the one version that was read around the answer is not the single one that it tells, in words."""
    if spans or len(versions_read) != 1:
        return ""
    (read,) = versions_read
    others = (f"{one} is {version!r}" for one, version in versions.items() if version != read)
    return next((f"{other}, and {read!r} was read before and after it" for other in others), "")


def _spelled(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
