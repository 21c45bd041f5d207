from typing import Any

import pytest

from turnstile.compiler.finding import Place
from turnstile.compiler.sampling import MAX_DEPTH, sampling_of

PLACE = Place("e1", None, "a.tslog", 64)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


def test_what_was_sent_is_given_as_it_was_sent() -> None:
    sent = {"temperature": 0.5, "stop": ["x"], "custom_params": {"a": nested(MAX_DEPTH - 1)}}
    assert sampling_of(sent | {"user": "u"}, PLACE) == (sent, [])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (float("nan"), "holds nan"),
        ({"a": [float("inf")]}, "holds inf"),
        (nested(MAX_DEPTH + 1), f"is nested more than {MAX_DEPTH} deep"),
    ],
)
def test_what_no_file_can_hold_is_left_out_and_said(value: Any, fault: str) -> None:
    found, [finding] = sampling_of({"temperature": 0.5, "custom_params": value}, PLACE)
    assert found == {"temperature": 0.5}
    assert (finding.kind, finding.severity) == ("sampling_invalid", "warning")
    assert finding.message == f"left out of sampling: custom_params ({fault})"
