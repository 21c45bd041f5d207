import json
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from turnstile.addon.backends.errors import BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.tokenizing import (
    TokenizedPrompt,
    can_tokenize,
    given_ids,
    listed_context,
    tokenized,
)


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": []} | fields).encode()


def test_sglang_counts_chats_since_0_5_12_and_vllm_does() -> None:
    assert can_tokenize(BackendFacts(kind="sglang", version=(0, 5, 12)))
    assert not can_tokenize(BackendFacts(kind="sglang", version=(0, 5, 11)))
    assert can_tokenize(BackendFacts(kind="vllm"))
    assert not can_tokenize(BackendFacts(kind="unknown"))
    assert not can_tokenize(None)


def test_a_prompt_in_tokens_has_as_many() -> None:
    assert given_ids(body(input_ids=[1, 2, 3])) == 3
    assert given_ids(body()) is None
    assert given_ids(b"no json") is None


def told(backend: Backend, reply: Reply) -> TokenizedPrompt | None:
    seen: list[Received] = []

    def script(received: Received) -> Reply:
        seen.append(received)
        return reply

    backend.script = script
    try:
        return tokenized(backend.url, body(model="m"), "Bearer key")
    finally:
        (received,) = seen
        assert (received.method, received.path) == ("POST", "/tokenize")
        assert received.body == body(model="m")
        assert received.headers["authorization"] == "Bearer key"


def test_the_backend_tells_a_prompt() -> None:
    with running_backend() as backend:
        answer = b'{"tokens": [1, 2], "count": 2, "max_model_len": 9}'
        assert told(backend, Reply(answer)) == TokenizedPrompt(2, b"[1, 2]")
        assert told(backend, Reply(b'{"count": 3}')) == TokenizedPrompt(3)


def test_a_backend_that_does_not_tell_a_prompt_is_believed_nothing() -> None:
    with running_backend() as backend:
        for answer in (
            b'{"count": -1}',
            b'{"count": true}',
            b"[]",
            b"no json",
            b'{"tokens": [1',
            b'{"tokens": []}',
        ):
            assert told(backend, Reply(answer)) is None
        assert told(backend, Reply(b"{}", status=400)) is None
        with pytest.raises(BackendUnreachable, match="/tokenize answers 404"):
            told(backend, Reply(b"{}", status=404))
    assert tokenized(backend.url, body(), None) is None


def test_a_backend_that_hangs_is_waited_for_so_long() -> None:
    with running_backend() as backend:
        backend.script = lambda received: Reply(b"" if received.wait_until_closed() else b"{}")
        with pytest.raises(TimeoutError):
            tokenized(backend.url, body(), None, timeout_s=0.1)


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        (b'{"data": [{"id": "m", "max_model_len": 4096}, {"id": "lora", "max_model_len": null}]}', 4096),
        (b'{"data": [{"max_model_len": 4096}, {"max_model_len": 1024}]}', 1024),
        (b'{"data": [{"max_model_len": "4096"}, {"max_model_len": 0}, 5]}', None),
        (b'{"data": {}}', None),
        (b"[]", None),
        (b"no json", None),
    ],
)
def test_the_list_of_models_says_what_the_context_holds(answer: bytes, context: int | None) -> None:
    with running_backend() as backend:
        backend.script = lambda received: Reply(answer)
        assert listed_context(backend.url, "Bearer key") == context
        (received,) = backend.received
        assert (received.path, received.headers["authorization"]) == ("/v1/models", "Bearer key")


def test_a_backend_without_a_list_of_models_says_nothing() -> None:
    with running_backend() as backend:
        backend.script = lambda received: Reply(b"{}", status=404)
        assert listed_context(backend.url, None) is None
    assert listed_context(backend.url, None) is None
