"""A chat request as text for a reader: model, sampling, tools, and the messages with their roles."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnstile.addon.backends.asking import FLAGS
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.reading import sampling_parameters
from turnstile.addon.capture.shown_images import placeholder_runs, shown_image

INDENT = "    "
_REASONING = ("reasoning_content", "reasoning")


def shown_request(body: bytes, prompt_ids: Sequence[Any], image_token: int | None) -> str:
    """The text. `prompt_ids` (of the reply) and the `image_token` in them tell how long the images are.

    Raises ValueError when the body is no JSON object with messages.
    """
    request = loads(body).value
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise ValueError("the request is no JSON object with messages")
    lengths = iter(placeholder_runs(prompt_ids, image_token, len(images_of(request))) or ())
    return "\n".join([*_head(request), *_messages(request, lengths)])


def images_of(request: Mapping[str, Any]) -> list[Any]:
    """The images of a request's messages, each as its part of a message has it."""
    return [part.get("image_url") for part in _parts_of_all(request) if part.get("type") == "image_url"]


def message_lines(message: Mapping[str, Any], lengths: Iterator[int] | None = None) -> Iterator[str]:
    """What a message says: its thinking, its content, the tools it calls. Not its role."""
    for name in _REASONING:
        if isinstance(thought := message.get(name), str) and thought:
            yield "thinking:"
            yield from indented(thought)
            break
    yield from _content_lines(message.get("content"), lengths or iter(()))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        named = function if isinstance(function, dict) else {}
        yield f"calls {named.get('name')} {named.get('arguments')}  ({_field(call, 'id')})"


def indented(text: str) -> Iterator[str]:
    """Its lines, each a step to the right."""
    return (INDENT + line for line in text.split("\n"))


def _head(request: Mapping[str, Any]) -> Iterator[str]:
    yield f"model: {request.get('model')}"
    if sampling := sampling_parameters(request):
        yield f"sampling: {_plain(sampling)}"
    if request.get("stream"):
        yield "stream: true"
    if asked := [flag for flag in FLAGS if request.get(flag)]:
        yield f"asks for: {', '.join(asked)}"
    tools = request.get("tools")
    if isinstance(tools, list) and tools:
        yield "tools:"
        yield from (INDENT + _tool(tool) for tool in tools)


def _messages(request: Mapping[str, Any], lengths: Iterator[int]) -> Iterator[str]:
    for message in request["messages"]:
        yield ""
        if not isinstance(message, dict):
            yield f"[no message] {_plain(message)}"
            continue
        words = (message.get("role"), message.get("name"), message.get("tool_call_id"))
        yield f"{' '.join(str(word) for word in words if word)}:"
        for line in message_lines(message, lengths):
            yield INDENT + line


def _content_lines(content: Any, lengths: Iterator[int]) -> Iterator[str]:
    if isinstance(content, str):
        yield from content.split("\n") if content else ()
        return
    for part in content if isinstance(content, list) else [] if content is None else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            yield from part["text"].split("\n")
        elif kind == "image_url":
            yield shown_image(part.get("image_url"), next(lengths, None))
        elif isinstance(kind, str):
            yield f"[{kind}]"
        else:
            yield _plain(part)


def _parts_of_all(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for message in request["messages"]:
        content = message.get("content") if isinstance(message, dict) else None
        yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def _tool(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        return _plain(tool)
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return f"{function.get('name')}({', '.join(properties) if isinstance(properties, dict) else ''})"


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
