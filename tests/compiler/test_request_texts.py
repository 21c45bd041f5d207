import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.request_texts import ReadRequest, RequestTexts
from turnstile.compiler.wording import Conversation

USER = {"role": "user", "content": "Count."}
ANSWER = {"role": "assistant", "content": "4"}


def body(messages: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": messages} | fields).encode()


def said(request: ReadRequest) -> tuple[Any, ...]:
    conversation = request.conversation
    return request.fields, conversation.digest, conversation.answers, conversation.images


def outcome(texts: RequestTexts, text: bytes) -> tuple[Any, ...] | None:
    """What is read; None for what is no JSON object."""
    try:
        return said(texts.read(text))
    except ValueError:
        return None


def test_a_request_is_its_fields_and_its_conversation() -> None:
    request = RequestTexts().read(body([USER, ANSWER, USER], temperature=0.5))
    assert request.fields == {"model": "tiny", "temperature": 0.5}
    assert said(request)[1:] == said(ReadRequest({}, Conversation().extended([USER, ANSWER, USER])))[1:]
    assert len(request.conversation.answers) == 1


MESSAGES = st.sampled_from(
    [
        USER,
        ANSWER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        },
        {"role": "user", "content": 'umlaut ü, emoji 😀, quote ", bracket ]}, lone \ud800'},
        {"role": "tool", "content": '"messages":[1,2]', "big": 2**70},
        "no object",
        [],
    ]
)
TAILS = st.sampled_from(
    [
        b"}",
        b',"n":1}',
        b' , "tools":[{"messages":[]}] }',
        b',"messages":[]}',
        b',"seed":%d}' % 2**70,
        b"]}",
        b"} x",
        b"",
    ]
)


@st.composite
def resent_bodies(draw: st.DrawFn) -> list[bytes]:
    """Bodies whose messages go on from any part of those of an earlier one; some are no JSON."""
    spaced = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", ":")]))
    conversations: list[list[Any]] = [draw(st.lists(MESSAGES, max_size=4))]
    bodies = []
    for _ in range(draw(st.integers(1, 8))):
        earlier = draw(st.sampled_from(conversations))
        conversations.append(
            earlier[: draw(st.integers(0, len(earlier)))] + draw(st.lists(MESSAGES, max_size=3))
        )
        text = json.dumps(conversations[-1], separators=spaced, ensure_ascii=draw(st.booleans()))
        bodies.append(b'{"messages":' + text.encode("utf-8", "surrogatepass") + draw(TAILS))
    return bodies


@given(resent_bodies())
def test_a_request_reads_the_same_whatever_came_before(bodies: list[bytes]) -> None:
    texts = RequestTexts()
    assert [outcome(texts, text) for text in bodies] == [outcome(RequestTexts(), text) for text in bodies]


def test_only_new_messages_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = RequestTexts()
    texts.read(body([USER]))
    monkeypatch.setattr("turnstile.compiler.request_texts.parse_object", None)
    assert said(texts.read(body([USER, ANSWER, USER]))) == said(
        ReadRequest({"model": "tiny"}, Conversation().extended([USER, ANSWER, USER]))
    )


def test_other_parameters_behind_the_same_messages_are_read() -> None:
    texts = RequestTexts()
    assert texts.read(body([USER], temperature=1.0)).fields == {"model": "tiny", "temperature": 1.0}
    assert texts.read(body([USER, USER], temperature=0.5)).fields == {"model": "tiny", "temperature": 0.5}


def test_of_two_members_named_messages_the_last_counts() -> None:
    texts = RequestTexts()
    texts.read(body([USER]))
    twice = b'{"model": "tiny", "messages": [%b], "messages": []}' % json.dumps(USER).encode()
    assert said(texts.read(twice)) == said(ReadRequest({"model": "tiny"}, Conversation()))


@pytest.mark.parametrize("messages", [[], None, "text", {}])
def test_a_request_without_messages_has_an_empty_conversation(messages: Any) -> None:
    assert said(RequestTexts().read(body(messages))) == said(ReadRequest({"model": "tiny"}, Conversation()))


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"messages":[', b"\xff", b'{"a":"\xff"}'])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"the body|utf-8"):
        RequestTexts().read(text)
