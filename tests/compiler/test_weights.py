from typing import Any

import pytest

from turnstile.compiler.finding import Place
from turnstile.compiler.weights import weight_spans_of

PLACE = Place("e1", 0, "a.tslog", 64)


def span(start: Any, end: Any, version: Any) -> dict[str, Any]:
    return {"version": version, "start": start, "end": end}


@pytest.mark.parametrize(
    ("version", "spans", "expected"),
    [
        ("8", [span(0, 3, "7"), span(3, 5, "8")], ((0, "7"), (3, "8"))),
        ("8", [span(0, 1, "7"), span(1, 3, "7"), span(3, 5, "8")], ((0, "7"), (3, "8"))),
        ("8", None, ((0, "8"),)),
        ("8", [], ((0, "8"),)),
        (None, None, ()),
    ],
)
def test_spans_come_before_the_single_version(version: Any, spans: Any, expected: Any) -> None:
    assert weight_spans_of(version, spans, 5, PLACE) == (expected, [])


@pytest.mark.parametrize(
    ("spans", "fault"),
    [
        ([span(0, 3, "7"), span(4, 5, "8")], "weight span 1 is 4 to 5, expected it to begin at 3"),
        ([span(1, 5, "7")], "weight span 0 is 1 to 5, expected it to begin at 0"),
        ([span(0, 0, "7"), span(0, 5, "8")], "weight span 0 is 0 to 0, expected it to begin at 0"),
        ([span(0, 3, "7"), span(2, 5, "8")], "weight span 1 is 2 to 5, expected it to begin at 3"),
        ([span(0, 4, "7")], "weight spans cover 4 of 5 sampled ids"),
        ([span(0, 6, "7")], "weight spans cover 6 of 5 sampled ids"),
        ([span(0, 5.0, "7")], "weight span 0 is 0 to 5.0, expected it to begin at 0"),
        ([span(0, 5, 7)], "weight span 0 names no version"),
        (["7"], "weight span 0 names no version"),
    ],
)
def test_spans_that_do_not_cover_the_sampled_ids_make_the_version_unknown(spans: Any, fault: str) -> None:
    found, [finding] = weight_spans_of("8", spans, 5, PLACE)
    assert (found, finding.kind, finding.severity) == ((), "weight_versions_invalid", "warning")
    assert finding.message == f"{fault}; the weight version of the turn is unknown"
