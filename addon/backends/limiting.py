"""Lowers how many tokens a chat request may sample.

SGLang and vLLM take `max_completion_tokens`, else `max_tokens`; null, and with SGLang 0, count as unset.
"""

from collections.abc import Mapping

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.json_edit import JsonObject, parse_object

TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")


def lowered(body: bytes, at_most: int, context_left: int | None) -> dict[str, int]:
    """The fields to set so that the request samples no more than `at_most` tokens; {} where it does anyhow.

    A request that names no number gets one only where that is surely less than `context_left`: SGLang refuses
    what its context cannot hold, and stops at its end by itself. Raises AskingError when the body is no JSON
    object.
    """
    request = parse_object(body)
    named = {name: number for name in TOKEN_LIMITS if (number := _number(request, name))}
    if named:
        return {name: at_most for name, number in named.items() if number > at_most}
    return {TOKEN_LIMITS[0]: at_most} if context_left is not None and at_most < context_left else {}


def names_limit(body: bytes) -> bool:
    """Whether a request says how much it may sample at the most."""
    try:
        request = parse_object(body)
    except AskingError:
        return False
    return any(_number(request, name) for name in TOKEN_LIMITS)


def context_length(facts: BackendFacts | None) -> int | None:
    """The tokens that the backend's context holds; None where it does not say."""
    info: Mapping[str, object] = {} if facts is None else facts.server_info
    length = info.get("context_length")
    return length if type(length) is int and length > 0 else None


def _number(request: JsonObject, name: str) -> int | None:
    """What the servers' models (pydantic) read there; None for nothing and for what they refuse."""
    value = request.value(name)
    try:
        return None if value is None or isinstance(value, list | dict) else int(value)
    except (ValueError, OverflowError):
        return None
