import json
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from turnstile.addon.backends.errors import AskingError, BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.limiting import can_tokenize, context_length, count_prompt, given_ids, lowered


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
    assert lowered(body(**fields), 100, None) == expected


def test_what_the_context_cannot_hold_is_not_asked_for() -> None:
    assert lowered(body(), 100, 101) == {"max_completion_tokens": 100}
    assert lowered(body(), 100, 100) == {}
    assert lowered(body(), 100, -5) == {}


def test_what_is_no_object_cannot_be_lowered() -> None:
    with pytest.raises(AskingError):
        lowered(b"[]", 100, None)


def test_sglang_counts_chats_since_0_5_12_and_vllm_does() -> None:
    assert can_tokenize(BackendFacts(kind="sglang", version=(0, 5, 12)))
    assert not can_tokenize(BackendFacts(kind="sglang", version=(0, 5, 11)))
    assert can_tokenize(BackendFacts(kind="vllm"))
    assert not can_tokenize(BackendFacts(kind="unknown"))
    assert not can_tokenize(None)


def test_the_context_is_as_long_as_the_backend_says() -> None:
    assert context_length(BackendFacts(kind="sglang", server_info={"context_length": 1024})) == 1024
    assert context_length(BackendFacts(kind="sglang", server_info={"context_length": None})) is None
    assert context_length(None) is None


def test_a_prompt_in_tokens_has_as_many() -> None:
    assert given_ids(body(input_ids=[1, 2, 3])) == 3
    assert given_ids(body()) is None
    assert given_ids(b"no json") is None


def counted(backend: Backend, reply: Reply) -> int | None:
    seen: list[Received] = []

    def script(received: Received) -> Reply:
        seen.append(received)
        return reply

    backend.script = script
    try:
        return count_prompt(backend.url, body(model="m"), "Bearer key")
    finally:
        (received,) = seen
        assert (received.method, received.path) == ("POST", "/tokenize")
        assert received.body == body(model="m")
        assert received.headers["authorization"] == "Bearer key"


def test_the_backend_counts_a_prompt() -> None:
    with running_backend() as backend:
        assert counted(backend, Reply(b'{"tokens": [1, 2], "count": 2, "max_model_len": 9}')) == 2
        for told in (b'{"count": -1}', b'{"count": true}', b"[]", b"no json"):
            assert counted(backend, Reply(told)) is None
        assert counted(backend, Reply(b"{}", status=400)) is None
        with pytest.raises(BackendUnreachable, match="/tokenize answers 404"):
            counted(backend, Reply(b"{}", status=404))
    assert count_prompt(backend.url, body(), None) is None
