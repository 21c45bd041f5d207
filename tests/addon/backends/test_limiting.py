import json
from typing import Any

import pytest

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.limiting import context_length, lowered, names_limit


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": []} | fields).encode()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 50}, {}),
        ({"max_tokens": 100}, {}),
        ({"max_tokens": 101}, {"max_tokens": 100}),
        ({"max_completion_tokens": 101}, {"max_completion_tokens": 100}),
        ({"max_tokens": 101, "max_completion_tokens": 50}, {"max_tokens": 100}),
        ({"max_tokens": "1000"}, {"max_tokens": 100}),
        ({"max_tokens": 1000.0}, {"max_tokens": 100}),
        ({"max_tokens": -1}, {}),
        ({}, {"max_completion_tokens": 100}),
        ({"max_tokens": None}, {"max_completion_tokens": 100}),
        ({"max_tokens": 0, "max_completion_tokens": 0}, {"max_completion_tokens": 100}),
        ({"max_tokens": "many"}, {"max_completion_tokens": 100}),
    ],
)
def test_a_request_samples_no_more_than_is_left(fields: dict[str, Any], expected: dict[str, int]) -> None:
    assert lowered(body(**fields), 100, 101) == expected


def test_what_the_context_cannot_hold_is_not_asked_for() -> None:
    assert lowered(body(), 100, 101) == {"max_completion_tokens": 100}
    assert lowered(body(), 100, 100) == {}
    assert lowered(body(), 100, -5) == {}


def test_nothing_is_added_where_the_context_is_not_known() -> None:
    assert lowered(body(), 100, None) == {}
    assert lowered(body(max_tokens=101), 100, None) == {"max_tokens": 100}


def test_a_number_that_counts_is_a_limit() -> None:
    assert names_limit(body(max_completion_tokens=5))
    assert not names_limit(body(max_tokens=0))
    assert not names_limit(b"[]")


def test_what_is_no_object_cannot_be_lowered() -> None:
    with pytest.raises(AskingError):
        lowered(b"[]", 100, None)


def test_the_context_is_as_long_as_the_backend_says() -> None:
    assert context_length(BackendFacts(kind="sglang", server_info={"context_length": 1024})) == 1024
    assert context_length(BackendFacts(kind="sglang", server_info={"context_length": None})) is None
    assert context_length(None) is None
