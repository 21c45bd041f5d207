"""What was said in a request and its reply, as digests: enough to tell whether a harness changed it later.

A harness resends the conversation with every turn. Whether it resent an answer as it got it decides what
a split is called, so digests of the messages are kept; the messages themselves are not.

An answer counts as unchanged when text, tool calls (ids, names, arguments as written) and reasoning are the
same. Absent, null and empty are one; a list of text parts is the text. All other messages must be the same
JSON. The images of the messages are taken out on the way.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.images.request_images import ImageStore, has_other_media
from turnstile.compiler.turn import Wording

_SIZE = 16  # bytes of a digest


class _Hash(Protocol):
    def copy(self) -> "_Hash": ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


def _new_hash() -> _Hash:
    return hashlib.blake2b(digest_size=_SIZE)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request."""

    answers: tuple[Wording, ...] = ()
    """For every assistant message the wording of the turn whose answer it would be."""
    images: tuple[Image | Unreadable, ...] = ()  # of all messages in order
    has_other_media: bool = False  # video or sound
    running: _Hash = field(default_factory=_new_hash)  # over all messages; copied, never updated

    @property
    def digest(self) -> bytes:
        """Of all messages in order."""
        return self.running.digest()

    def extended(self, messages: Iterable[Any], store: ImageStore | None = None) -> "Conversation":
        """The conversation with more messages at its end; `store` has the images of its group."""
        store = ImageStore() if store is None else store
        answers, images, running = list(self.answers), list(self.images), self.running.copy()
        has_other = self.has_other_media
        for message in messages:
            if isinstance(message, dict):
                if message.get("role") == "assistant":
                    answers.append(Wording(running.digest(), reply_digest(message)))
                images += store.images_of(message)
                has_other = has_other or has_other_media(message)
            text = _json(message)
            running.update(b"%d:" % len(text))
            running.update(text)
        return Conversation(tuple(answers), tuple(images), has_other, running)


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
