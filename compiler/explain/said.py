"""What an exchange said, as parsed JSON: the messages and tools of its request, and the answer to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.finding import Place
from turnstile.compiler.replies import choices_of


@dataclass(frozen=True, slots=True)
class Said:
    """One choice of an exchange; what could not be read is empty."""

    messages: tuple[Any, ...] = ()
    tools: Any = None
    template_options: Any = None  # chat_template_kwargs, which the chat template is given
    answer: Mapping[str, Any] = field(default_factory=dict)  # the assistant message that came back

    @property
    def history(self) -> tuple[Any, ...]:
        """What a harness that changes nothing sends next, before its new messages."""
        return (*self.messages, self.answer)


def said_in(exchange: Exchange, choice: int) -> Said:
    """What was said in an exchange whose turn was compiled."""
    request = _object(exchange.forwarded())
    messages = request.get("messages")
    readings, _ = choices_of(exchange, Place(exchange.exchange_id, choice, "", 0))
    answers = [reading.message for reading in readings if reading.choice == choice]
    return Said(
        tuple(messages) if isinstance(messages, list) else (),
        request.get("tools") or None,
        request.get("chat_template_kwargs") or None,
        (answers and answers[0]) or {},
    )


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(body)  # less strict: NaN, a lone surrogate
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
