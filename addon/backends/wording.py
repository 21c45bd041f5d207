"""What was said in a request and its reply, as digests: enough to tell whether a harness changed it later.

A harness resends the conversation with every turn. Whether it resent an answer as it got it decides what
the compiler calls a split, and what capture need not ask for again. So digests of the messages are kept; the
messages themselves are not.

An answer counts as unchanged when text, tool calls (ids, names, arguments as written) and reasoning are the
same. Absent, null and empty are one; a list of text parts is the text. All other messages must be the same
JSON.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

_SIZE = 16  # bytes of a digest


class _Hash(Protocol):
    def copy(self) -> "_Hash": ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


def _new_hash() -> _Hash:
    return hashlib.blake2b(digest_size=_SIZE)


@dataclass(frozen=True, slots=True)
class Wording:
    """Digests of what was said, enough to tell later whether a harness sent it back unchanged."""

    request: bytes  # of all messages of the request
    reply: bytes  # of the assistant message that came back


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request."""

    answers: tuple[Wording, ...] = ()
    """For every assistant message the wording of the turn whose answer it would be."""
    running: _Hash = field(default_factory=_new_hash)  # over all messages; copied, never updated

    @property
    def digest(self) -> bytes:
        """Of all messages in order."""
        return self.running.digest()

    def extended(self, messages: Iterable[Any]) -> "Conversation":
        """The conversation with more messages at its end."""
        answers, running = list(self.answers), self.running.copy()
        for message in messages:
            if isinstance(message, dict) and message.get("role") == "assistant":
                answers.append(Wording(running.digest(), reply_digest(message)))
            text = _json(message)
            running.update(b"%d:" % len(text))
            running.update(text)
        return Conversation(tuple(answers), running)


def reply_digest(message: Mapping[str, Any]) -> bytes:
    """Of an assistant message, as a reply holds it or as a request resends it."""
    calls = message.get("tool_calls") or []
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    said = [_text(message.get("content")), reasoning, _calls(calls)]
    return hashlib.blake2b(_json(said), digest_size=_SIZE).digest()


def _text(content: Any) -> Any:
    if isinstance(content, list) and all(_is_text_part(part) for part in content):
        return "".join(part["text"] for part in content)
    return content or ""


def _is_text_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _calls(calls: Any) -> Any:
    return [_call(call) for call in calls] if isinstance(calls, list) else calls


def _call(call: Any) -> Any:
    if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
        return call
    return [call.get("id"), function.get("name"), function.get("arguments")]


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, an integer beyond 64 bits
        return json.dumps(value).encode()
