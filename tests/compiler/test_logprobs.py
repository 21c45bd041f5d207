import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.finding import Place
from turnstile.compiler.logprobs import logprobs_of

PLACE = Place("e1", 0, "a.tslog", 64)
CONTRADICTION = "the logprob of sampled id 1 is -2.0 in a, -3.0 in b; they cannot both be right"
UNPLACED = "nothing tells which of them belong together"
NONE_VALID = (
    "the logprob of sampled id 0 is null in a, expected a finite number not above 0, "
    "and those of 1 more are none either"
)


def test_logprobs_are_kept_to_the_last_bit() -> None:
    values = [-0.1, -2.2836947441101074, 0.0, -1e-320]
    logprobs_T, findings = logprobs_of({"a": values, "b": list(values)}, 4, PLACE)
    assert logprobs_T is not None
    assert (logprobs_T.dtype, logprobs_T.tolist(), findings) == (np.dtype(np.float64), values, [])


def test_an_integer_is_a_logprob() -> None:
    logprobs_T, findings = logprobs_of({"a": [-1, 0]}, 2, PLACE)
    assert logprobs_T is not None
    assert (logprobs_T.tolist(), findings) == ([-1.0, 0.0], [])


@pytest.mark.parametrize(
    ("bad", "spelled"),
    [
        (None, "null"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (0.25, "0.25"),
        (True, "True"),
        ("-0.5", "a str"),
        (10**400, str(10**400)),
    ],
)
def test_a_value_that_is_no_logprob_is_unknown_and_shifts_no_other(bad: Any, spelled: str) -> None:
    logprobs_T, [finding] = logprobs_of({"a": [-0.5, bad, -0.7]}, 3, PLACE)
    assert logprobs_T is not None
    assert np.isnan(logprobs_T).tolist() == [False, True, False]
    assert (logprobs_T[0], logprobs_T[2]) == (-0.5, -0.7)
    assert (finding.kind, finding.severity) == ("logprob_invalid", "error")
    assert (
        finding.message
        == f"the logprob of sampled id 1 is {spelled} in a, expected a finite number not above 0"
    )


def test_a_logprob_unknown_to_one_source_is_unknown() -> None:
    logprobs_T, [finding] = logprobs_of({"a": [-0.5, -0.6, -1], "b": [-0.5, None, None]}, 3, PLACE)
    assert logprobs_T is not None
    assert np.isnan(logprobs_T).tolist() == [False, True, True]
    assert finding.message == (
        "the logprob of sampled id 1 is -0.6 in a, null in b, expected a finite number not above 0, "
        "and those of 1 more are none either"
    )


@pytest.mark.parametrize(
    ("sources", "kind", "message"),
    [
        ({}, "missing_logprobs", "2 sampled ids and not one logprob"),
        ({"a": []}, "missing_logprobs", "2 sampled ids and not one logprob"),
        ({"a": [-1.0]}, "logprob_count_mismatch", "2 sampled ids, 1 logprobs in a; " + UNPLACED),
        (
            {"a": [-1.0, -1.0], "b": [-1.0] * 3},
            "logprob_count_mismatch",
            "2 sampled ids, 3 logprobs in b; " + UNPLACED,
        ),
        ({"a": [-1.0, -2.0], "b": [-1.0, -3.0]}, "logprob_invalid", CONTRADICTION),
        ({"a": [None, None]}, "logprob_invalid", NONE_VALID),
    ],
)
def test_without_logprobs_that_can_be_relied_on_there_are_none(
    sources: dict[str, list[Any]], kind: str, message: str
) -> None:
    logprobs_T, findings = logprobs_of(sources, 2, PLACE)
    assert logprobs_T is None
    assert [(finding.kind, finding.message) for finding in findings] == [(kind, message)]


@given(st.lists(st.floats() | st.none() | st.integers(), min_size=1))
def test_what_comes_out_is_what_came_in_or_unknown(values: list[Any]) -> None:
    logprobs_T, findings = logprobs_of({"a": values}, len(values), PLACE)
    valid = [value is not None and math.isfinite(value) and value <= 0 for value in values]
    assert (logprobs_T is None) == (not any(valid))
    assert len(findings) == (not all(valid))
    for found, value, is_valid in zip([] if logprobs_T is None else logprobs_T, values, valid, strict=False):
        assert found == value if is_valid else math.isnan(found)
