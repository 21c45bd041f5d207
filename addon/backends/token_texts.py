"""The text of each sampled token, as OpenAI's logprobs tell it; for showing, never for training."""

from typing import Any

from turnstile.addon.backends.chat_events import CHUNKS, is_done
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.places import inner_object
from turnstile.addon.backends.sse import EventSplitter


def token_texts(reply: bytes, *, is_stream: bool) -> dict[int, list[str]]:
    """By the choice's index; empty for a reply that tells none, or cannot be read."""
    texts: dict[int, list[str]] = {}
    for part in _events(reply) if is_stream else [reply]:
        try:
            value = loads(part).value
        except ValueError:
            continue
        choices = value.get("choices") if isinstance(value, dict) else None
        for at, choice in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(choice, dict):
                index = choice.get("index")
                texts.setdefault(index if type(index) is int else at, []).extend(_texts(choice))
    return texts


def _events(stream: bytes) -> list[bytes]:
    parts = []
    for event in EventSplitter().feed(stream):
        if is_done(event):
            break
        if event.data and event.event in CHUNKS:
            parts.append(event.data)
    return parts


def _texts(choice: dict[str, Any]) -> list[str]:
    rows = inner_object(choice, "logprobs").get("content")
    tokens = [row.get("token") if isinstance(row, dict) else None for row in rows] if rows else []
    return [token if isinstance(token, str) else "" for token in tokens]
