"""Turns a backend's reply into the one that the harness would have got without Turnstile.

What was added is taken off, and nothing else: errors, replies that hold nothing added, and whatever is no
chat completion go on byte for byte. A harness that asked for a stream gets one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turnstile.addon.backends import places
from turnstile.addon.backends.asking import (
    INPUT_IDS_IN_SGLEXT,
    LOGPROBS,
    META_INFO,
    OUTPUT_IDS_IN_SGLEXT,
    PROMPT_IDS,
    ROUTED_EXPERTS,
    TOKEN_IDS,
    Asking,
)
from turnstile.addon.backends.exact_json import Document, loads
from turnstile.addon.backends.long_spans import Cut, cut_long_values, uncut
from turnstile.addon.backends.places import Choice
from turnstile.addon.backends.streaming import chat_as_events
from turnstile.addon.backends.taking_off import take_off

EVENT_STREAM = "text/event-stream; charset=utf-8"

Fact = Literal["prompt_token_ids", "sampled_token_ids", "logprobs", "routed_experts"]
"""What capture wants and a reply may lack."""

ASKED_BY: Mapping[Fact, frozenset[str]] = {
    "prompt_token_ids": frozenset({PROMPT_IDS, TOKEN_IDS, INPUT_IDS_IN_SGLEXT}),
    "sampled_token_ids": frozenset({META_INFO, TOKEN_IDS, OUTPUT_IDS_IN_SGLEXT}),
    "logprobs": frozenset({LOGPROBS}),
    "routed_experts": frozenset({ROUTED_EXPERTS}),
}

PLACES_OF: Mapping[Fact, Callable[[Choice], dict[str, Any]]] = {
    "prompt_token_ids": places.prompt_ids,
    "sampled_token_ids": places.sampled_ids,
    "logprobs": places.logprobs,
    "routed_experts": places.routed_experts,
}


@dataclass(frozen=True, slots=True)
class Restored:
    """What the harness gets."""

    body: bytes
    content_type: str | None  # None: the backend's own
    missing: tuple[Fact, ...]  # wanted by capture and absent from a choice, in the order of Fact


def restore_chat(reply: bytes, status: int, asking: Asking) -> Restored:
    """What the harness gets for the backend's reply to `asking`.

    `reply` is without content-encoding. Any status but 200 is an error, which passes as it is, also to a
    harness that asked for a stream: SGLang from 0.5.10 on answers that in the same way.
    """
    if status != 200:
        return Restored(reply, None, ())
    cut, document = _parsed(reply)
    if document is None or not isinstance(document.value.get("choices"), list):
        return Restored(reply, None, wanted_facts(asking))
    missing = tuple(fact for fact in wanted_facts(asking) if _lacks(document.value, fact))
    changed = take_off(document.value, asking)
    if asking.harness.wants_stream:
        events = chat_as_events(document.value, asking.harness, document.dumps)
        return Restored(cut.put_back(events), EVENT_STREAM, missing)
    return Restored(cut.put_back(document.dumps(document.value)) if changed else reply, None, missing)


def wanted_facts(asking: Asking) -> tuple[Fact, ...]:
    """What capture expects of a reply to `asking`."""
    return tuple(fact for fact, flags in ASKED_BY.items() if flags & asking.wanted)


def _parsed(reply: bytes) -> tuple[Cut, Document | None]:
    """The reply as an object, its long values still text where they can be; None for anything else."""
    for cut in (cut_long_values(reply), uncut(reply)):
        try:
            document = loads(cut.rest)
        except ValueError:
            continue
        return cut, document if isinstance(document.value, dict) else None
    return uncut(reply), None


def _lacks(reply: dict[str, Any], fact: Fact) -> bool:
    """Whether a choice is without the fact. An aborted one may be: it may never have been computed."""
    return any(
        not PLACES_OF[fact](Choice(reply, fields, at))
        for at, fields in enumerate(reply["choices"])
        if isinstance(fields, dict) and fields.get("finish_reason") != "abort"
    )
