"""Reads a chat completion into plain facts, each as it was found in every place where it was found.

Nothing is compared, converted or repaired here: two sources that contradict each other, an id that is a
float or a string, a logprob that is null or NaN stay visible to whoever judges them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from turnstile.addon.backends import places
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.logprob_text import says_logprobs
from turnstile.addon.backends.long_spans import cut_prompts_and_logprobs, uncut
from turnstile.addon.backends.places import CONTENT, OUTPUT_ROWS, Choice, inner_object

SAMPLING_PARAMETERS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "ignore_eos",
    "response_format",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "tool_choice",
    "custom_logit_processor",
    "custom_params",
    "lora_path",
)
"""Fields of a request that bear on what is sampled."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """An array of token ids as the JSON that was found: b"[151644,872,198]".

    Without strings or arrays in it. Whether it holds ids, and only ids, shows when it is parsed.
    """

    array: bytes


@dataclass(frozen=True, slots=True)
class ChoiceReading:
    """One choice as the reply tells of it; mappings are by the place, named as in `places`."""

    choice: int
    prompt_ids: dict[str, Any]  # a PromptText, or whatever else stands there
    sampled_ids: dict[str, list[Any]]
    logprobs: dict[str, list[Any]]  # natural logarithms
    prompt_token_counts: dict[str, Any]
    completion_token_counts: dict[str, Any]
    completion_token_sums: dict[str, Any]  # over all choices of the reply, where there are several
    finish_reason: str | None  # "abort" where any place says so
    weight_versions: dict[str, Any]  # of the whole choice, or of its end
    weight_spans: dict[str, Any]  # as found, expected lists of {version, start, end}
    cached_tokens: int | None  # prompt tokens that were not computed anew
    num_retractions: int | None
    message: dict[str, Any] | None
    cached_tokens_details: Mapping[str, Any] = field(default_factory=dict)  # which cache they came from
    routed_experts: dict[str, Any] = field(default_factory=dict)  # base64 text, see the engine's format
    routed_experts_dtype: str | None = None  # name of the type of its numbers, where one is told


def read_chat(reply: bytes, *, with_routing: bool = True) -> list[ChoiceReading]:
    """The choices of a chat completion, in their order in the reply.

    Not `with_routing`: of routed experts shows whether there are any, some text stands for them. Raises
    UndecodableReply when it is no JSON object with choices, or two choices have one index.
    """
    for cut in (cut_prompts_and_logprobs(reply, and_routing=not with_routing), uncut(reply)):
        try:
            return choice_readings(_loads(cut.rest), cut.values)
        except ValueError as error:
            reason = str(error)
    raise UndecodableReply(f"the reply is no JSON: {reason}")


def sampling_parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that bear on sampling, as they were sent; those left out are left out."""
    return {name: request[name] for name in SAMPLING_PARAMETERS if name in request}


def choice_readings(reply: Any, cut: Mapping[str, bytes]) -> list[ChoiceReading]:
    """As `read_chat`, of a reply that is parsed already; `cut` are the values that were cut out of it.

    Raises ValueError when one of these is no JSON by itself.
    """
    if not isinstance(reply, dict):
        raise UndecodableReply(f"the reply is a JSON {type(reply).__name__}, not an object")
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(each, dict) for each in choices):
        names = ", ".join(list(reply)[:10]) or "none"
        raise UndecodableReply(f"the reply has no list of choices; its fields: {names}")
    readings = [_reading(Choice(reply, fields, at), cut) for at, fields in enumerate(choices)]
    numbers = [reading.choice for reading in readings]
    if len({*numbers}) != len(numbers):
        raise UndecodableReply(f"the reply has several choices of one index: {numbers}")
    return readings


def _loads(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass  # perhaps only too strict: NaN, a lone surrogate
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply to read") from error


def _reading(choice: Choice, cut: Mapping[str, bytes]) -> ChoiceReading:
    return ChoiceReading(
        choice=choice.number,
        prompt_ids={place: _prompt(ids, cut) for place, ids in places.prompt_ids(choice).items()},
        sampled_ids=_columns(places.sampled_ids(choice), {OUTPUT_ROWS: 1}),
        logprobs=_logprobs(choice, cut),
        prompt_token_counts=places.prompt_token_counts(choice),
        completion_token_counts=places.completion_token_counts(choice),
        completion_token_sums=places.completion_token_sums(choice),
        finish_reason=_finish_reason(choice),
        weight_versions=places.weight_versions(choice),
        weight_spans=places.weight_spans(choice),
        cached_tokens=_cached_tokens(choice),
        # total_retractions: its name before SGLang 0.5.12
        num_retractions=_first(
            int, (choice.meta_info, "num_retractions"), (choice.meta_info, "total_retractions")
        ),
        message=_first(dict, (choice.fields, "message")),
        cached_tokens_details=_first_of(dict, places.cached_tokens_details(choice)) or {},
        routed_experts=places.routed_experts(choice),
        routed_experts_dtype=_first_of(str, places.routed_experts_dtype(choice)),
    )


def _prompt(ids: Any, cut: Mapping[str, bytes]) -> Any:
    """An array that was cut out stays text; anything else is given as it was found."""
    return PromptText(cut[ids]) if isinstance(ids, str) and ids in cut else ids


def _logprobs(choice: Choice, cut: Mapping[str, bytes]) -> dict[str, list[Any]]:
    found = places.logprobs(choice)
    content = found.get(CONTENT)
    if not isinstance(content, str) or content not in cut:
        return _columns(found, {OUTPUT_ROWS: 0, CONTENT: "logprob"})
    of_engine = _columns({OUTPUT_ROWS: found[OUTPUT_ROWS]} if OUTPUT_ROWS in found else {}, {OUTPUT_ROWS: 0})
    same = of_engine.get(OUTPUT_ROWS, [])
    if not says_logprobs(cut[content], same):
        return of_engine | {CONTENT: _column(_loads(cut[content])["content"], "logprob")}
    return of_engine | {CONTENT: same}


def _finish_reason(choice: Choice) -> str | None:
    of_engine = inner_object(choice.meta_info, "finish_reason")
    if of_engine.get("type") == "abort":  # a layer above the engine may have called it something else
        return "abort"
    found = _first(str, (choice.fields, "finish_reason"), (of_engine, "type"))
    # JSON can spell half a surrogate pair, which no format of text can hold
    return None if found is None or not _is_unicode(found) else found


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cached_tokens(choice: Choice) -> int | None:
    details = inner_object(choice.usage, "prompt_tokens_details")
    # The usage says 0 also where the server does not report its cache.
    reported = (details, "cached_tokens") if details.get("cached_tokens") else ({}, "")
    return _first(int, (choice.meta_info, "cached_tokens"), reported)


def _first_of[T](kind: type[T], found: Mapping[str, Any]) -> T | None:
    """The first value of that very type."""
    return next((value for value in found.values() if type(value) is kind), None)


def _first[T](kind: type[T], *fields: tuple[Mapping[str, Any], str]) -> T | None:
    """The first value of that very type among the (object, name of its field)."""
    return next((holder[name] for holder, name in fields if type(holder.get(name)) is kind), None)


def _columns(found: Mapping[str, Any], columns: Mapping[str, int | str]) -> dict[str, list[Any]]:
    """Each place's list, where it is one of rows only the named column of it."""
    return {
        place: _column(value, columns[place]) if place in columns else _listed(value)
        for place, value in found.items()
    }


def _column(rows: Any, at: int | str) -> list[Any]:
    try:
        return [row[at] for row in rows]
    except (LookupError, TypeError):
        return [_cell(row, at) for row in _listed(rows)]


def _cell(row: Any, at: int | str) -> Any:
    """A field of a row; a row that has no such field stands for itself."""
    try:
        return row[at]
    except (LookupError, TypeError):
        return row


def _listed(value: Any) -> list[Any]:
    """A list as it is; anything else that stands in its place as the only item."""
    return value if isinstance(value, list) else [value]
