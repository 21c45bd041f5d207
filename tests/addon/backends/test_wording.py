from typing import Any

import pytest

from turnstile.addon.backends.wording import Conversation, Wording, reply_digest

USER = {"role": "user", "content": "What is the weather?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"zip": "879"}'}}
REPLY: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "reasoning_content": None,
    "tool_calls": [CALL | {"index": 0}],
}


@pytest.mark.parametrize(
    ("reply", "resent"),
    [
        (REPLY, {"role": "assistant", "content": None, "tool_calls": [CALL]}),
        ({"content": "4", "tool_calls": None}, {"role": "assistant", "content": "4"}),
        ({"content": "4"}, {"role": "assistant", "content": [{"type": "text", "text": "4"}]}),
        ({"content": "ab"}, {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        ({"content": "4", "reasoning_content": "2 + 2"}, {"content": "4", "reasoning": "2 + 2"}),
        ({"content": "lone \ud800"}, {"content": "lone \ud800", "refusal": None}),
    ],
)
def test_an_answer_is_the_same_in_other_clothes(reply: dict[str, Any], resent: dict[str, Any]) -> None:
    assert reply_digest(reply) == reply_digest(resent)


@pytest.mark.parametrize(
    "changed",
    [
        {"content": "4 "},
        {"content": "5"},
        {"content": "4", "reasoning_content": "thought"},
        {"content": "4", "tool_calls": [CALL]},
        {"content": [{"type": "text", "text": "4"}, {"type": "image_url"}]},
    ],
)
def test_another_answer_has_another_digest(changed: dict[str, Any]) -> None:
    assert reply_digest({"content": "4"}) != reply_digest(changed)


@pytest.mark.parametrize(
    "changed",
    [
        CALL | {"id": "call_2"},
        CALL | {"function": {"name": "g", "arguments": '{"zip": "879"}'}},
        CALL | {"function": {"name": "f", "arguments": '{"zip":"879"}'}},
    ],
)
def test_another_tool_call_is_another_answer(changed: dict[str, Any]) -> None:
    assert reply_digest(REPLY) != reply_digest({"role": "assistant", "tool_calls": [changed]})


def test_every_assistant_message_answers_the_messages_before_it() -> None:
    first, second = {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}
    conversation = Conversation().extended([USER, first, USER, second])
    assert conversation.answers == (
        Wording(Conversation().extended([USER]).digest, reply_digest(first)),
        Wording(Conversation().extended([USER, first, USER]).digest, reply_digest(second)),
    )


def test_a_conversation_grows_as_if_it_were_read_at_once() -> None:
    messages = [USER, {"role": "assistant", "content": "a"}, "odd", USER]
    start = Conversation().extended(messages[:2])
    grown, whole = start.extended(messages[2:]), Conversation().extended(messages)
    assert (grown.digest, grown.answers) == (whole.digest, whole.answers)
    assert start.digest == Conversation().extended(messages[:2]).digest


def test_messages_are_told_apart_by_where_they_end() -> None:
    assert Conversation().extended(["a", "b"]).digest != Conversation().extended(['a"b']).digest
    assert Conversation().extended([1, 2]).digest != Conversation().extended([12]).digest


@pytest.mark.parametrize("calls", [True, 7, {"id": "call_1"}, "call_1"])
def test_calls_that_are_no_list_are_told_apart(calls: Any) -> None:
    assert reply_digest({"tool_calls": calls}) == reply_digest({"tool_calls": calls, "content": None})
    assert reply_digest({"tool_calls": calls}) != reply_digest({})
