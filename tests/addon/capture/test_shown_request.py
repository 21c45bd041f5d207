from typing import Any

import pytest

from tests.support.chat import TOOL_CALL, chat_request
from turnstile.addon.capture.shown_request import shown_request

GIF = "R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"properties": {"zip": {}}}}}


def test_a_request_is_shown_as_a_conversation() -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Be brief.\nAlways."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "assistant", "content": None, "reasoning_content": "A tool.", "tool_calls": [TOOL_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "12 C"},
    ]
    body = chat_request(messages=messages, tools=[TOOL], temperature=0.5, stream=True, logprobs=True)
    assert shown_request(body, [], None).splitlines() == [
        "model: tiny",
        'sampling: {"temperature": 0.5}',
        "stream: true",
        "asks for: logprobs",
        "tools:",
        "    get_weather(zip)",
        "",
        "system:",
        "    Be brief.",
        "    Always.",
        "",
        "user:",
        "    Weather?",
        "",
        "assistant:",
        "    thinking:",
        "        A tool.",
        '    calls get_weather {"zip": "879"}  (call_579a88c8993641268595f06b)',
        "",
        "tool call_1:",
        "    12 C",
    ]


def test_images_stand_where_they_are_with_their_tokens() -> None:
    one, other = (f"data:image/gif;base64,{text}" for text in (GIF, GIF[:-4]))
    parts = [
        {"type": "image_url", "image_url": {"url": one}},
        {"type": "text", "text": "and"},
        {"type": "image_url", "image_url": {"url": other}},
        {"type": "input_audio", "input_audio": {}},
    ]
    body = chat_request(messages=[{"role": "user", "content": parts}])
    assert shown_request(body, [1, 9, 9, 2, 9], 9).splitlines()[-4:] == [
        "    [image c552a1e8 1x1, 2 tokens]",
        "    and",
        "    [image e712f7ab 1x1, 1 token]",
        "    [input_audio]",
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [7, {}, {"content": 7}, {"content": [7, {"type": 7}]}, {"tool_calls": [7, {}]}]},
        {"tools": [7, {"function": 7}, {"function": {"parameters": 7}}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    ],
)
def test_a_request_of_any_shape_is_shown(fields: dict[str, Any]) -> None:
    assert shown_request(chat_request(**fields), [], None).startswith("model: tiny")


def test_what_is_no_conversation_is_refused() -> None:
    for body in (b"[]", b"{}", b'{"messages": 7}'):
        with pytest.raises(ValueError, match="no JSON object with messages"):
            shown_request(body, [], None)
