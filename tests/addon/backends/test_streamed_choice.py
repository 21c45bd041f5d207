from typing import Any

import pytest

from tests.support.chat_streams import FOUR, begun, chunk, finished, token
from turnstile.addon.backends.streamed_choice import StreamedChoice


def put_together(*chunks: dict[str, Any]) -> dict[str, Any]:
    choice = StreamedChoice()
    for each in chunks:
        choice.add(each["choices"][0])
    return choice.as_fields(3)


def test_texts_are_joined_by_their_names() -> None:
    fields = put_together(
        begun(), token(0, FOUR, name="reasoning_content"), token(0, FOUR), token(0, FOUR), finished()
    )
    assert fields["index"] == 3
    assert fields["message"] == {"role": "assistant", "content": "44", "reasoning_content": "4"}


def test_tool_calls_are_put_together_by_index() -> None:
    def call(index: int, **fields: Any) -> dict[str, Any]:
        return chunk(said={"tool_calls": [{"id": None, "index": index, "type": "function", **fields}]})

    fields = put_together(
        call(0, id="call_1", function={"name": "get_weather", "arguments": ""}),
        call(0, function={"name": None, "arguments": '{"zip"'}),
        call(1, id="call_2", function={"name": "stop", "arguments": "{}"}),
        call(0, function={"name": None, "arguments": ": 1}"}),
    )
    assert fields["message"]["tool_calls"] == [
        {
            "function": {"name": "get_weather", "arguments": '{"zip": 1}'},
            "index": 0,
            "type": "function",
            "id": "call_1",
        },
        {"function": {"name": "stop", "arguments": "{}"}, "index": 1, "type": "function", "id": "call_2"},
    ]


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([None, None], None),
        ([{"content": []}], {"content": []}),
        ([{"content": [1]}, None, {"content": [2, 3]}], {"content": [1, 2, 3]}),
        ([{"content": None}], {"content": []}),
        ([5, [6]], {"content": [5, 6]}),
    ],
)
def test_logprobs_are_joined(logprobs: list[Any], expected: Any) -> None:
    chunks = [{"choices": [{"logprobs": each}]} for each in logprobs]
    assert put_together(*chunks)["logprobs"] == expected


def test_of_an_aborted_choice_the_message_is_unknown() -> None:
    fields = put_together(begun(), token(0, FOUR), finished(reason="abort"))
    assert (fields["finish_reason"], fields["message"]) == ("abort", None)


@pytest.mark.parametrize(
    "delta",
    [
        None,
        5,
        {"content": 5, "tool_calls": 5},
        {"tool_calls": [5, {"index": []}, {"function": {"arguments": {}}}]},
    ],
)
def test_odd_deltas_do_no_harm(delta: Any) -> None:
    assert put_together({"choices": [{"delta": delta}]})["finish_reason"] is None
