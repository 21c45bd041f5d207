"""A whole chat completion as the stream of events that the server would have sent.

In the order of SGLang's own streams (serving_chat, `_generate_chat_stream`, 0.5.23): for each choice the
role, then reasoning, content and tool calls; then how each choice finished; sglext where the harness asked
for what is in it; the usage where it asked for that; `[DONE]`. A choice's text comes in one piece, with all
its logprobs.

What only a real stream can tell is left out: running usage (`continuous_usage_stats`), and the end token as
`matched_stop` of a tool call, which the whole reply does not hold.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from turnstile.addon.backends.asking import Harness

DONE = b"data: [DONE]\n\n"

_HEAD = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_TEXTS = ("reasoning_content", "reasoning", "content", "refusal")  # fields of a message, as they come to be
_IN_ANOTHER_CHUNK = frozenset({"index", "message", "logprobs", "finish_reason", "hidden_states"})


def chat_as_events(
    reply: Mapping[str, Any], harness: Harness, dumps: Callable[[Any], bytes] = orjson.dumps
) -> bytes:
    """The server-sent events for a reply from which what was added is taken off already.

    `dumps` writes JSON; `reply` must have a list of `choices`.
    """
    head = {name: reply[name] for name in _HEAD if name in reply} | {"object": "chat.completion.chunk"}
    choices = [choice for choice in reply["choices"] if isinstance(choice, dict)]
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [chunk]} for choice in choices for chunk in _spoken(choice)
    ]
    chunks += [{**head, "choices": [chunk]} for choice in choices for chunk in _finished(choice)]
    if reply.get("sglext"):
        chunks.append({**head, "choices": [], "usage": None, "sglext": reply["sglext"]})
    if harness.include_usage and reply.get("usage"):
        chunks.append({**head, "choices": [], "usage": reply["usage"]})
    return b"".join([*(b"data: " + dumps(chunk) + b"\n\n" for chunk in chunks), DONE])


def _spoken(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The role, then everything that the message says."""
    message = choice.get("message")
    said = message if isinstance(message, dict) else {}
    role = said.get("role") or "assistant"
    yield _chunk(choice, {"role": role, "content": "", "reasoning_content": None})
    logprobs = choice.get("logprobs")
    for name in _TEXTS:
        if said.get(name):
            yield _chunk(choice, {"reasoning_content": None, name: said[name]}, logprobs)
            logprobs = None
    for at, call in enumerate(said.get("tool_calls") or []):
        yield _chunk(choice, {"reasoning_content": None, "tool_calls": [_call(call, at)]})
    if logprobs is not None:
        # As SGLang does: chunks of tool calls carry none, they follow in a chunk of their own.
        yield _chunk(choice, {"reasoning_content": None}, logprobs)


def _finished(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rest = {name: value for name, value in choice.items() if name not in _IN_ANOTHER_CHUNK}
    finish_reason = choice.get("finish_reason")
    yield _chunk(choice, {"reasoning_content": None}) | {"finish_reason": finish_reason} | rest
    if choice.get("hidden_states") is not None:
        yield _chunk(choice, {"reasoning_content": None, "hidden_states": choice["hidden_states"]})


def _chunk(choice: dict[str, Any], delta: dict[str, Any], logprobs: Any = None) -> dict[str, Any]:
    chunk = {"index": choice.get("index", 0), "delta": delta, "logprobs": logprobs, "finish_reason": None}
    return chunk | {"matched_stop": None} if "matched_stop" in choice else chunk


def _call(call: Any, at: int) -> Any:
    """The whole call in one delta; a delta must tell its index, which a message need not."""
    if not isinstance(call, dict):
        return call
    index = call.get("index")
    return {**call, "index": index if isinstance(index, int) else at}
