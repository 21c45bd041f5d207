import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.support.backend import Backend, Reply, running_backend
from tests.support.chat import (
    REPLY_ID,
    TOOL_CALL,
    as_without_turnstile,
    chat_request,
    choice,
    compact,
    completion,
    tool_call_choice,
)
from turnstile.addon.backends.asking import Harness, ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.restoring import restore_chat
from turnstile.addon.backends.streaming import chat_as_events

HEAD = {"id": REPLY_ID, "created": 1796025950, "model": "tiny", "object": "chat.completion.chunk"}
OPENING = {"role": "assistant", "content": "", "reasoning_content": None}
USAGE = completion()["usage"]


def chunks_of(reply: dict[str, Any], *, include_usage: bool = False) -> list[Any]:
    """The data of each event, checked to be framed as server-sent events."""
    harness = Harness(wants_stream=True, include_usage=include_usage)
    *events, done, end = chat_as_events(reply, harness).decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    assert all(event.startswith("data: {") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def chunk(
    delta: dict[str, Any],
    index: int = 0,
    logprobs: Any = None,
    finish: str | None = None,
    matched: Any = None,
) -> dict[str, Any]:
    told = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return {**HEAD, "choices": [told | {"matched_stop": matched}]}


def test_a_text_comes_as_role_content_and_finish() -> None:
    assert chunks_of(as_without_turnstile(completion())) == [
        chunk(OPENING),
        chunk({"reasoning_content": None, "content": "4"}),
        chunk({"reasoning_content": None}, finish="stop", matched=151645),
    ]


def test_reasoning_comes_before_the_content() -> None:
    reply = as_without_turnstile(completion(choice(message={"reasoning_content": "Hm."})))
    assert chunks_of(reply)[1:3] == [
        chunk({"reasoning_content": "Hm."}),
        chunk({"reasoning_content": None, "content": "4"}),
    ]


def test_logprobs_come_once_with_the_first_text() -> None:
    message = {"reasoning_content": "Hm."}
    reply = as_without_turnstile(completion(choice(message=message)), logprobs=True)
    assert [each["choices"][0]["logprobs"] for each in chunks_of(reply)] == [
        None,
        choice()["logprobs"],
        None,
        None,
    ]


def test_tool_calls_come_whole_and_their_logprobs_in_a_chunk_of_their_own() -> None:
    second = {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    reply = as_without_turnstile(completion(tool_call_choice(0, TOOL_CALL, second)), logprobs=True)
    assert chunks_of(reply) == [
        chunk(OPENING),
        chunk({"reasoning_content": None, "tool_calls": [TOOL_CALL]}),
        chunk({"reasoning_content": None, "tool_calls": [second | {"index": 1}]}),
        chunk({"reasoning_content": None}, logprobs=choice()["logprobs"]),
        chunk({"reasoning_content": None}, finish="tool_calls"),
    ]


def test_an_empty_answer_is_a_role_and_a_finish() -> None:
    reply = as_without_turnstile(completion(choice(message={"content": ""}, finish_reason="abort")))
    assert chunks_of(reply) == [
        chunk(OPENING),
        chunk({"reasoning_content": None}, finish="abort"),
    ]


def test_several_choices_are_told_apart_by_index_and_finish_together() -> None:
    reply = as_without_turnstile(completion(choice(1), choice(0, message={"content": "5"})))
    assert chunks_of(reply) == [
        chunk(OPENING, 1),
        chunk({"reasoning_content": None, "content": "4"}, 1),
        chunk(OPENING, 0),
        chunk({"reasoning_content": None, "content": "5"}, 0),
        chunk({"reasoning_content": None}, 1, finish="stop", matched=151645),
        chunk({"reasoning_content": None}, 0, finish="stop", matched=151645),
    ]


def test_usage_comes_last_and_only_when_it_was_asked_for() -> None:
    reply = as_without_turnstile(completion())
    assert chunks_of(reply, include_usage=True) == [
        *chunks_of(reply),
        {**HEAD, "choices": [], "usage": USAGE},
    ]
    del reply["usage"]
    assert chunks_of(reply, include_usage=True) == chunks_of(reply)


def test_sglext_and_hidden_states_that_the_harness_asked_for_have_chunks_as_the_server_makes_them() -> None:
    sglext = {"routed_experts": "AA=="}
    reply = as_without_turnstile(completion(choice(hidden_states=[[0.5]]), sglext=sglext))
    assert chunks_of(reply)[-2:] == [
        chunk({"reasoning_content": None, "hidden_states": [[0.5]]}),
        {**HEAD, "choices": [], "usage": None, "sglext": sglext},
    ]


def test_fields_of_another_engine_are_not_lost() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
        "reasoning": "Hm.",
        "tool_calls": [],
    }
    vllm = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "stop_reason": 7}
    told = [each["choices"][0] for each in chunks_of({"choices": [vllm], "service_tier": None})]
    assert [each["delta"] for each in told] == [
        OPENING,
        {"reasoning_content": None, "reasoning": "Hm."},
        {"reasoning_content": None, "refusal": "No."},
        {"reasoning_content": None},
    ]
    assert told[-1] == {
        "index": 0,
        "delta": {"reasoning_content": None},
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": 7,
    }


@pytest.mark.parametrize("odd", [{}, {"message": None}, {"message": {"tool_calls": ["odd"]}}])
def test_odd_choices_are_no_obstacle(odd: dict[str, Any]) -> None:
    assert chunks_of({"choices": [odd, None]})[0]["choices"][0]["delta"] == OPENING


class Weather(BaseModel):
    """A tool of the real client."""

    zip: str


class Server:
    """A backend that answers `reply` to everything, as a stream of ours."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.client = openai.OpenAI(base_url=f"{backend.url}/v1", api_key="none", max_retries=0)

    def says(self, reply: dict[str, Any], **request: Any) -> None:
        body = chat_request(stream=True, **request)
        facts = BackendFacts(kind="sglang", version=(0, 5, 23))
        restored = restore_chat(compact(reply), 200, ask_chat(body, facts))
        assert restored.content_type is not None
        headers = {"content-type": restored.content_type}
        self.backend.script = lambda received: Reply(restored.body, headers=headers)


@pytest.fixture
def server() -> Iterator[Server]:
    with running_backend() as backend:
        server = Server(backend)
        yield server
        server.client.close()


MESSAGES: Any = [{"role": "user", "content": "Count."}]


def test_the_openai_client_reads_the_stream(server: Server) -> None:
    server.says(completion(choice(message={"content": "42 é漢"})), stream_options={"include_usage": True})
    with server.client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True) as stream:
        chunks = list(stream)
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == "42 é漢"
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2
    assert {each.id for each in chunks} == {REPLY_ID}


def test_the_openai_clients_stream_helper_puts_a_text_together(server: Server) -> None:
    server.says(completion(choice(message={"reasoning_content": "Hm."})), logprobs=True)
    with server.client.chat.completions.stream(model="tiny", messages=MESSAGES, logprobs=True) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert kinds.count("content.delta") >= 1
    assert {"content.done", "logprobs.content.done"} <= {*kinds}
    [whole] = final.choices
    assert whole.message.content == "4"
    assert whole.message.model_extra is not None
    assert whole.message.model_extra["reasoning_content"] == "Hm."
    assert whole.finish_reason == "stop"
    assert whole.logprobs is not None
    assert whole.logprobs.content is not None
    assert [row.logprob for row in whole.logprobs.content] == [-0.5, -0.25]


def test_the_openai_clients_stream_helper_puts_tool_calls_together(server: Server) -> None:
    second = {
        **TOOL_CALL,
        "id": "call_2",
        "index": 1,
        "function": {"name": "Weather", "arguments": '{"zip":"1"}'},
    }
    first = {**TOOL_CALL, "function": {"name": "Weather", "arguments": '{"zip": "879"}'}}
    server.says(completion(tool_call_choice(0, first, second)), logprobs=True)
    tools = [openai.pydantic_function_tool(Weather)]
    with server.client.chat.completions.stream(model="tiny", messages=MESSAGES, tools=tools) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [event.arguments for event in done] == ['{"zip": "879"}', '{"zip":"1"}']
    [whole] = final.choices
    assert whole.finish_reason == "tool_calls"
    assert whole.message.tool_calls is not None
    assert [(call.id, call.function.parsed_arguments) for call in whole.message.tool_calls] == [
        (TOOL_CALL["id"], Weather(zip="879")),
        ("call_2", Weather(zip="1")),
    ]


def test_the_openai_clients_stream_helper_keeps_several_choices_apart(server: Server) -> None:
    server.says(completion(choice(0), choice(1, message={"content": "5"})), n=2)
    with server.client.chat.completions.stream(model="tiny", messages=MESSAGES, n=2) as stream:
        final = stream.get_final_completion()
    assert [(each.index, each.message.content) for each in final.choices] == [(0, "4"), (1, "5")]


async def test_the_asynchronous_client_reads_the_stream(server: Server) -> None:
    server.says(completion())
    async with (
        openai.AsyncOpenAI(base_url=f"{server.backend.url}/v1", api_key="none", max_retries=0) as client,
        client.chat.completions.stream(model="tiny", messages=MESSAGES) as stream,
    ):
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "4"
