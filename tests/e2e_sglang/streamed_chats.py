"""Chats of several kinds, which a server with a reasoning and a tool parser streams in several ways."""

from typing import Any

_THINK_END, _END = "151668", "151645"  # tokens of Qwen3
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]},
}
_CALL = '<tool_call>\n\\{"name": "get_weather", "arguments": \\{"zip": "[0-9]{3}"\\}\\}\n</tool_call>'

_Fields = dict[str, Any]
_CUT_OFF: _Fields = {"extra_body": _NO_THINKING}
_CUT_OFF_THINKING: _Fields = {}
_ENDED: _Fields = {  # with a token that adds no text
    "max_tokens": 16,
    "logit_bias": {_END: 20},
    "extra_body": {"regex": "[0-9]{6}", **_NO_THINKING},
}
_ENDED_AFTER_THINKING: _Fields = {
    "max_tokens": 40,
    "logit_bias": {_THINK_END: 11, _END: 7},
    "extra_body": {"regex": "\n\n[0-9]{6}"},
}
_CALLS_A_TOOL: _Fields = {  # whose parser holds most of the text back
    "max_tokens": 80,
    "logit_bias": {_END: 20},
    "tools": [{"type": "function", "function": _WEATHER}],
    "extra_body": {"regex": _CALL, **_NO_THINKING},
}
_KINDS = (
    *(_CUT_OFF, _CUT_OFF_THINKING) * 3,
    *(_ENDED, _ENDED, _ENDED_AFTER_THINKING, _CALLS_A_TOOL),
)


def request(number: int) -> dict[str, Any]:
    """The arguments for the client; greedy, so that the server says the same again."""
    common = {"temperature": 0, "stream": True, "max_tokens": 12 + number % 13}
    messages = [{"role": "user", "content": question(number)}]
    return {"messages": messages, **common, **_KINDS[number % len(_KINDS)]}


def question(number: int) -> str:
    """What is asked, which tells the chats apart."""
    return f"Tell me about the number {number}."
