"""A backend's reply as text for a reader: what each choice says, and the tokens it is made of.

What the reply tells is shown, the first place that tells it; whether the places agree is the compiler's to
judge, and a line says where they do not.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.backends.reading import ChoiceReading, PromptText, read_chat
from turnstile.addon.backends.stream_reading import read_chat_stream
from turnstile.addon.backends.token_texts import token_texts
from turnstile.addon.capture.sampled_tokens import is_stream
from turnstile.addon.capture.shown_images import placeholder_runs, shown_image
from turnstile.addon.capture.shown_request import INDENT, message_lines
from turnstile.addon.capture.shown_routing import shown_routing

_LONG_RUN = 4  # of one id, from which on they are counted
_IDS_A_LINE = 12
_LINES = 16  # of prompt ids, from which on the middle is left out


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the exchange beside its reply."""

    without_ids: str  # stands where a choice has no token ids
    first_row: int = 0  # of routed experts, as it was asked for
    shape: MoeShape = field(default_factory=MoeShape)
    images: Sequence[Any] = ()  # of the request, each as its part of a message has it
    image_token: int | None = None  # the id that stands for them


def shown_reply(reply: bytes, known: Known) -> str:
    """The text.

    Raises ValueError or UndecodableReply when the reply is no chat completion.
    """
    lines: list[str] = []
    streamed = is_stream(reply)
    if streamed:
        stream = read_chat_stream(reply)
        choices: Sequence[ChoiceReading] = stream.choices
        if not choices and stream.error is None:
            raise UndecodableReply("no event tells of a choice")
        lines += [f"error: {stream.error}"] if stream.error else []
        lines += [] if stream.done_seen else ["the stream ended before [DONE]"]
    else:
        choices = read_chat(reply)
    texts = token_texts(reply, is_stream=streamed)
    for choice in choices:
        lines += ["", *_said_lines(choice), ""]
        if choice.prompt_ids or choice.sampled_ids or choice.logprobs:
            lines += _token_section(choice, texts.get(choice.choice, []), known)
        else:
            lines.append(INDENT + known.without_ids)
    return "\n".join(lines).strip("\n")


def prompt_ids_of(reply: bytes) -> list[Any]:
    """The prompt ids of the first choice that tells them; [] where none does. Raises as `shown_reply`."""
    choices = read_chat_stream(reply).choices if is_stream(reply) else read_chat(reply)
    return next((ids for choice in choices if (ids := _prompt_ids(choice))), [])


def _said_lines(choice: ChoiceReading) -> Iterator[str]:
    words = [f"choice {choice.choice}:", f"finish {choice.finish_reason}"]
    if choice.cached_tokens is not None:
        words.append(f"{choice.cached_tokens} prompt tokens cached")
    if choice.num_retractions:
        words.append(f"retracted {choice.num_retractions} times")
    yield "  ".join(words)
    for line in message_lines(choice.message or {}):
        yield INDENT + line


def _token_section(choice: ChoiceReading, texts: list[str], known: Known) -> Iterator[str]:
    prompt, sampled = _prompt_ids(choice), _first(choice.sampled_ids, [])
    routing = shown_routing(choice, (len(prompt), len(sampled)), known.first_row, known.shape)
    yield f"{INDENT}sampled: {len(sampled)} tokens"
    for line in _token_lines(choice, len(prompt), sampled, texts, routing.digests if routing else None):
        yield 2 * INDENT + line
    if routing is not None:
        yield f"{INDENT}routed experts: {routing.summary}"
    yield from (INDENT + line for line in _contradictions(choice))
    yield f"{INDENT}prompt: {len(prompt)} tokens, mask 0"
    yield from (2 * INDENT + line for line in _id_lines(prompt, known))


def _token_lines(
    choice: ChoiceReading,
    first: int,
    sampled: Sequence[Any],
    texts: Sequence[str],
    routing: Sequence[str] | None,
) -> Iterator[str]:
    logprobs = _first(choice.logprobs, [])
    are_told = len(logprobs) == len(sampled)
    if not are_told:
        yield f"logprobs: {len(logprobs)}, not shown beside {len(sampled)} ids" if logprobs else "no logprobs"
        logprobs = [None] * len(sampled)
    if len(texts) != len(sampled):
        texts = [""] * len(sampled)
    versions = _versions(choice, len(sampled))
    routes = ["" if routing is None else f"{digest:7}  " for digest in routing or [""] * len(sampled)]
    if sampled:
        yield f"    at      id    logprob  mask  weights  {'' if routing is None else 'routing  '}text"
    for at, (token, logprob, version, route, text) in enumerate(
        zip(sampled, logprobs, versions, routes, texts, strict=True)
    ):
        is_known = type(token) is int and _is_logprob(logprob)
        shown = f"{logprob:10.5f}" if _is_number(logprob) else f"{logprob if are_told else '-'!s:>10}"
        said = json.dumps(text, ensure_ascii=False) if text else ""
        line = f"{first + at:6}  {token!s:>6} {shown}  {int(is_known):>4}  {version:7}  {route}{said}"
        yield line.rstrip()


def _versions(choice: ChoiceReading, count: int) -> list[str]:
    """The weight version of each sampled token, "-" where none is told."""
    whole = _first(choice.weight_versions, None)
    versions = ["-" if whole is None else str(whole)] * count
    spans = _first(choice.weight_spans, None)
    for span in spans if isinstance(spans, list) else ():
        if isinstance(span, dict) and type(span.get("start")) is type(span.get("end")) is int:
            places = range(*slice(max(0, span["start"]), max(0, span["end"])).indices(count))
            for at in places:
                versions[at] = str(span.get("version"))
    return versions


def _id_lines(ids: Sequence[Any], known: Known) -> list[str]:
    """The ids; long runs of one are counted, those that stand for an image are named after it."""
    images = iter(known.images if placeholder_runs(ids, known.image_token, len(known.images)) else ())
    words: list[str] = []
    for token, run in groupby(ids, key=str):
        count = sum(1 for _ in run)
        image = next(images, None) if token == str(known.image_token) else None
        if image is not None:
            words.append(shown_image(image, count))
        else:
            words += [f"{token} x{count}"] if count >= _LONG_RUN else [token] * count
    lines = [" ".join(words[at : at + _IDS_A_LINE]) for at in range(0, len(words), _IDS_A_LINE)]
    if len(lines) > _LINES:
        half = _LINES // 2
        lines = [*lines[:half], f"... {len(lines) - _LINES} lines more ...", *lines[-half:]]
    return lines


def _contradictions(choice: ChoiceReading) -> Iterator[str]:
    for what, places in (("sampled ids", choice.sampled_ids), ("logprobs", choice.logprobs)):
        values = iter(places.items())
        first, told = next(values, ("", []))
        for place, others in values:
            if others != told:
                yield f"! the {what} of {place} are not those of {first}"


def _prompt_ids(choice: ChoiceReading) -> list[Any]:
    ids = _first(choice.prompt_ids, [])
    if isinstance(ids, PromptText):
        ids = json.loads(ids.array)
    return ids if isinstance(ids, list) else []


def _first(places: Mapping[str, Any], otherwise: Any) -> Any:
    return next(iter(places.values()), otherwise)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_logprob(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value) and value <= 0
