import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.backend import Backend, Received, Reply, chat_reply, running_backend
from tests.support.mitmdump import Answered, Proxy, running_mitmdump

USER = {"role": "user", "content": "2+2?"}
ASSISTANT = {"role": "assistant", "content": "4"}


def make_group(proxy: Proxy, group_id: str, limit: int) -> None:
    said = json.dumps({"group_id": group_id, "max_trajectory_tokens": limit}).encode()
    assert proxy.ask("POST", "/turnstile/groups", said).status == 200


def ask(proxy: Proxy, group_id: str, *messages: Any, rollout: str = "r", **fields: Any) -> Answered:
    body = json.dumps({"model": "m", "messages": messages or [USER]} | fields).encode()
    return proxy.ask("POST", f"/group/{group_id}/rollout/{rollout}/v1/chat/completions", body)


def counting(backend: Backend, count: int | None, prompt_tokens: int = 3) -> None:
    """The backend counts a prompt so, or has no /tokenize, and says so in its reply."""

    def script(received: Received) -> Reply:
        if received.path == "/tokenize":
            answer = {"error": "x"} if count is None else {"tokens": [], "count": count}
            return Reply(json.dumps(answer).encode(), status=400 if count is None else 200)
        reply = json.loads(chat_reply(received.json))
        reply["usage"]["prompt_tokens"] = prompt_tokens
        return Reply(json.dumps(reply).encode())

    backend.script = script


def forwarded(backend: Backend) -> list[Any]:
    return [received.json for received in backend.received if received.path != "/tokenize"]


def assert_refused(answer: Answered, limit: int, prompt: int) -> None:
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (400, "context_length_exceeded")
    assert (error["type"], error["param"]) == ("invalid_request_error", "messages")
    assert f"maximum length is {limit} tokens" in error["message"]
    assert f"your messages resulted in {prompt} tokens" in error["message"]


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({}, {"max_completion_tokens": 70}),
        ({"max_tokens": 1000}, {"max_tokens": 70}),
        ({"max_completion_tokens": 71, "max_tokens": 5}, {"max_completion_tokens": 70, "max_tokens": 5}),
        ({"max_tokens": 69}, {"max_tokens": 69}),
    ],
)
def test_an_answer_is_clamped_to_what_the_backend_counts_as_left(
    proxy: Proxy, backend: Backend, sent: dict[str, int], got: dict[str, int]
) -> None:
    make_group(proxy, "clamped", 100)
    counting(backend, 30)
    assert ask(proxy, "clamped", **sent).status == 200
    (request,) = forwarded(backend)
    assert {name: request[name] for name in request if name.startswith("max_")} == got
    exchange = proxy.exchanges("clamped")[-1]
    assert json.loads(exchange.forwarded()) == request


def test_a_prompt_that_leaves_no_room_is_refused_and_recorded(proxy: Proxy, backend: Backend) -> None:
    make_group(proxy, "full", 100)
    counting(backend, 100)
    assert_refused(ask(proxy, "full"), 100, 100)
    assert_refused(ask(proxy, "full", stream=True), 100, 100)
    assert forwarded(backend) == []
    assert [(found.outcome, found.status) for found in proxy.exchanges("full")] == [("refused", None)] * 2
    assert proxy.ask("GET", "/turnstile/groups/full").json["refused"] == 2


def test_the_openai_client_knows_the_refusal(proxy: Proxy, backend: Backend) -> None:
    make_group(proxy, "client", 100)
    counting(backend, 101)
    messages: Any = [USER]
    with (
        openai.OpenAI(base_url=f"{proxy.url}/group/client/v1", api_key="k", max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model="m", messages=messages)
    assert caught.value.code == "context_length_exceeded"


def test_a_prompt_in_tokens_is_counted_as_it_is(proxy: Proxy, backend: Backend) -> None:
    make_group(proxy, "ids", 5)
    assert ask(proxy, "ids", input_ids=[1, 2, 3, 4]).status == 200
    assert_refused(ask(proxy, "ids", input_ids=[1, 2, 3, 4, 5]), 5, 5)
    assert [received.json["max_completion_tokens"] for received in backend.received] == [1]


def test_without_a_count_a_prompt_is_as_long_as_what_it_goes_on_from(proxy: Proxy, backend: Backend) -> None:
    make_group(proxy, "guessed", 100)
    counting(backend, None, prompt_tokens=60)
    assert ask(proxy, "guessed", USER).status == 200
    assert ask(proxy, "guessed", USER, ASSISTANT, USER).status == 200
    assert ask(proxy, "guessed", USER).status == 200
    assert ask(proxy, "guessed", USER, ASSISTANT, USER, rollout="other").status == 200
    assert [each["max_completion_tokens"] for each in forwarded(backend)] == [100, 38, 40, 100]


def test_a_reply_that_shows_a_prompt_without_room_is_recorded_and_not_handed_on(
    proxy: Proxy, backend: Backend
) -> None:
    make_group(proxy, "late", 100)
    counting(backend, None, prompt_tokens=100)
    assert_refused(ask(proxy, "late"), 100, 100)
    assert_refused(ask(proxy, "late", stream=True), 100, 100)
    assert len(forwarded(backend)) == 1
    found = proxy.exchanges("late")
    assert [(each.outcome, each.delivered) for each in found] == [("complete", False), ("refused", True)]


def test_a_live_stream_is_clamped_too(live_proxy: Proxy, backend: Backend) -> None:
    make_group(live_proxy, "limited-live", 100)
    counting(backend, 30)
    ask(live_proxy, "limited-live", stream=True)
    (request,) = forwarded(backend)
    assert (request["stream"], request["max_completion_tokens"]) == (True, 70)


def test_a_group_without_a_limit_is_left_alone(proxy: Proxy, backend: Backend) -> None:
    counting(backend, 1000)
    assert ask(proxy, "unlimited").status == 200
    (received,) = backend.received
    assert "max_completion_tokens" not in received.json


CONTEXT = 1000


@pytest.fixture
def strict(log_directory: Path) -> Iterator[tuple[Proxy, Backend]]:
    """A backend as SGLang is without --context-length: it refuses what its context cannot hold."""
    with (
        running_backend(server_info={"context_length": None}) as backend,
        running_mitmdump(backend.url, log_directory) as proxy,
    ):
        yield proxy, backend


def refusing(backend: Backend, prompt_tokens: int, *, lists: bool = True, counts: bool = True) -> None:
    """Whether the list of models names the context, and /tokenize counts."""

    def script(received: Received) -> Reply:
        if received.path == "/v1/models":
            return Reply(json.dumps({"data": [{"max_model_len": CONTEXT if lists else None}]}).encode())
        if received.path == "/tokenize":
            told = {"tokens": [], "count": prompt_tokens, "max_model_len": 131072}
            return Reply(json.dumps(told).encode(), status=200 if counts else 400)
        wanted = received.json.get("max_completion_tokens") or 0
        if prompt_tokens + wanted > CONTEXT:
            return Reply(b'{"message": "Requested token count exceeds the context"}', status=400)
        reply = json.loads(chat_reply(received.json))
        reply["usage"]["prompt_tokens"] = prompt_tokens
        return Reply(json.dumps(reply).encode())

    backend.script = script


def chats(backend: Backend) -> list[Any]:
    return [received.json for received in backend.received if received.path.endswith("completions")]


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("counts", [True, False])
def test_a_limit_beyond_the_context_makes_no_request_refused(
    strict: tuple[Proxy, Backend], lists: bool, counts: bool
) -> None:
    proxy, backend = strict
    refusing(backend, 30, lists=lists, counts=counts)
    make_group(proxy, "beyond", 4096)
    assert [ask(proxy, "beyond").status for _ in range(2)] == [200, 200]
    assert ["max_completion_tokens" in chat for chat in chats(backend)] == [False, False]
    assert sum(received.path == "/v1/models" for received in backend.received) == 1


def test_a_prompt_that_is_longer_than_known_makes_no_request_refused(strict: tuple[Proxy, Backend]) -> None:
    proxy, backend = strict
    refusing(backend, 30, counts=False)
    make_group(proxy, "near", CONTEXT - 10)
    assert ask(proxy, "near").status == 200
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert ask(proxy, "near", {"role": "user", "content": [image]}).status == 200


def test_a_limit_within_the_context_that_the_models_name_is_kept(strict: tuple[Proxy, Backend]) -> None:
    proxy, backend = strict
    refusing(backend, 30)
    make_group(proxy, "within", 100)
    assert ask(proxy, "within").status == 200
    assert chats(backend)[0]["max_completion_tokens"] == 70


def test_where_no_number_was_added_a_reply_beyond_the_limit_is_not_handed_on(
    strict: tuple[Proxy, Backend],
) -> None:
    proxy, backend = strict
    refusing(backend, 30, lists=False)
    make_group(proxy, "open", 31)
    answer = ask(proxy, "open")
    assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")
    assert "your messages and the answer resulted in 32 tokens" in answer.json["error"]["message"]
    (exchange,) = proxy.exchanges("open")
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("complete", 200, False)
    make_group(proxy, "wide", 32)
    assert [ask(proxy, "wide").status, ask(proxy, "wide", n=2).status] == [200, 200]


def test_of_several_answers_the_longest_is_held_against_the_limit(strict: tuple[Proxy, Backend]) -> None:
    proxy, backend = strict
    refusing(backend, 30, lists=False)
    usual = backend.script

    def uneven(received: Received) -> Reply:
        """The second choice has six tokens, the first two."""
        if not received.path.endswith("completions"):
            return usual(received)
        reply, longer = (
            json.loads(chat_reply(received.json, sampled_ids=ids)) for ids in ((1, 2), (1, 2, 3, 4, 5, 6))
        )
        reply["choices"][1] = longer["choices"][1]
        reply["usage"] |= {"prompt_tokens": 30, "completion_tokens": 8}
        return Reply(json.dumps(reply).encode())

    backend.script = uneven
    make_group(proxy, "uneven", 35)
    answer = ask(proxy, "uneven", n=2)
    assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")
    assert "your messages and the answer resulted in 36 tokens" in answer.json["error"]["message"]
    make_group(proxy, "even", 36)
    assert ask(proxy, "even", n=2).status == 200
