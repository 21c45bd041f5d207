from typing import Any

import pytest

from turnstile.compiler.finding import Place
from turnstile.compiler.weights import weight_spans_of

PLACE = Place("e1", 0, "a.tslog", 64)
ONE, SPANS = "meta_info.weight_version", "meta_info.weight_versions"
ONE_MORE, MORE_SPANS = "metadata.weight_version", "metadata.weight_versions"


def span(start: Any, end: Any, version: Any) -> dict[str, Any]:
    return {"version": version, "start": start, "end": end}


@pytest.mark.parametrize(
    ("versions", "spans", "expected"),
    [
        ({ONE: "8"}, {SPANS: [span(0, 3, "7"), span(3, 5, "8")]}, ((0, "7"), (3, "8"))),
        ({}, {SPANS: [span(0, 1, "7"), span(1, 3, "7"), span(3, 5, "8")]}, ((0, "7"), (3, "8"))),
        ({ONE: "8", ONE_MORE: "8"}, {}, ((0, "8"),)),
        ({ONE: "8"}, {SPANS: []}, ((0, "8"),)),
        ({}, {}, ()),
    ],
)
def test_spans_come_before_the_single_version(versions: Any, spans: Any, expected: Any) -> None:
    assert weight_spans_of(versions, spans, 5, PLACE) == (expected, [])


def fault_of(versions: Any, spans: Any) -> str:
    found, [finding] = weight_spans_of(versions, spans, 5, PLACE)
    assert (found, finding.kind, finding.severity) == ((), "weight_versions_invalid", "warning")
    return finding.message.removesuffix("; the weight version of the turn is unknown")


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
        ([span(0, ["x"], "7")], "weight span 0 is 0 to a list, expected it to begin at 0"),
        ([span(0, 5, 7)], "weight span 0 names no version"),
        (["7"], "weight span 0 names no version"),
        ([None], "weight span 0 names no version"),
        ("7", "meta_info.weight_versions is a str, expected a list of spans"),
        ({"7": 5}, "meta_info.weight_versions is a dict, expected a list of spans"),
    ],
)
def test_spans_that_do_not_cover_the_sampled_ids_make_the_version_unknown(spans: Any, fault: str) -> None:
    assert fault_of({ONE: "8"}, {SPANS: spans}) == fault


@pytest.mark.parametrize(
    ("versions", "spans", "fault"),
    [
        ({ONE: "8", ONE_MORE: "9"}, {}, f"{ONE} is '8', {ONE_MORE} is '9'"),
        ({}, {SPANS: [span(0, 5, "7")], MORE_SPANS: [span(0, 5, "8")]}, f"{SPANS} and {MORE_SPANS} differ"),
        ({ONE: 8}, {}, f"{ONE} is a int, expected a text"),
    ],
)
def test_places_that_tell_different_versions_make_it_unknown(versions: Any, spans: Any, fault: str) -> None:
    assert fault_of(versions, spans) == fault


def test_spans_hold_against_a_single_version_and_a_finding_says_so() -> None:
    found, [finding] = weight_spans_of({ONE: "9"}, {SPANS: [span(0, 3, "7"), span(3, 5, "8")]}, 5, PLACE)
    assert found == ((0, "7"), (3, "8"))
    assert (finding.kind, finding.severity) == ("weight_versions_invalid", "warning")
    assert finding.message == f"{ONE} is '9', but the last of {SPANS} is '8'"


def test_a_single_version_is_not_believed_where_the_weights_moved_around_the_answer() -> None:
    assert weight_spans_of({ONE: "8"}, {}, 5, PLACE, ("7", "8")) == ((), [])  # turns_of says it
    assert weight_spans_of({}, {SPANS: [span(0, 5, "8")]}, 5, PLACE, ("7", "8")) == (((0, "8"),), [])


def test_a_single_version_is_not_believed_against_the_one_that_was_read() -> None:
    assert weight_spans_of({ONE: "7"}, {}, 5, PLACE, ("7",)) == (((0, "7"),), [])
    found, [finding] = weight_spans_of({ONE: "8"}, {}, 5, PLACE, ("7",))
    assert (found, finding.kind, finding.severity) == ((), "weight_versions_invalid", "warning")
    read = f"{ONE} is '8', and '7' was read before and after it"
    assert finding.message == f"{read}; the weight version of the turn is unknown"
