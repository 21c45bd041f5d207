"""Lowers how many tokens a chat request may sample, and asks the backend how long its prompt is.

SGLang and vLLM take `max_completion_tokens`, else `max_tokens`; null, and with SGLang 0, count as unset. Both
tell at POST /tokenize how they would tokenise the messages of a chat request, template and tools included:
SGLang from 0.5.12 on. Of images they count the placeholders there, not what these grow to.
"""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping

from turnstile.addon.backends.errors import AskingError, BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.backends.json_edit import JsonObject, parse_object

TOKENIZES_CHATS_SINCE = (0, 5, 12)
LARGEST_BODY = 4 << 20  # bytes; more is images, which the count does not tell of
TIMEOUT_S = 10.0
_ANSWER_LIMIT_BYTES = 64 << 20
_FIELDS = ("max_completion_tokens", "max_tokens")


def lowered(body: bytes, at_most: int, context_left: int | None) -> dict[str, int]:
    """The fields to set so that the request samples no more than `at_most` tokens; {} where it does anyhow.

    A request that names no number gets one, but no more than `context_left`: a backend refuses what its
    context cannot hold. Raises AskingError when the body is no JSON object.
    """
    request = parse_object(body)
    named = {name: number for name in _FIELDS if (number := _number(request, name))}
    if named:
        return {name: at_most for name, number in named.items() if number > at_most}
    if context_left is None:
        return {_FIELDS[0]: at_most}
    return {_FIELDS[0]: at_most} if at_most < context_left else {}


def can_tokenize(facts: BackendFacts | None) -> bool:
    """Whether the backend is known to count the tokens of a chat request."""
    if facts is None:
        return False
    return facts.kind == "vllm" or (facts.kind == "sglang" and at_least(facts, *TOKENIZES_CHATS_SINCE))


def count_prompt(url: str, body: bytes, authorization: str | None) -> int | None:
    """How many tokens the backend makes of the chat request in `body`; blocks for one request.

    None where it does not say: it would refuse the request, too. Raises BackendUnreachable when there is no
    such service.
    """
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": authorization} if authorization else {}
    )
    request = urllib.request.Request(f"{url}/tokenize", body, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            told = json.loads(answer.read(_ANSWER_LIMIT_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 405, 501):
            raise BackendUnreachable(f"{url}/tokenize answers {error.code}") from None
        return None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    count = told.get("count") if isinstance(told, dict) else None
    return count if type(count) is int and count >= 0 else None


def given_ids(body: bytes) -> int | None:
    """The length of a prompt that is given in tokens (`input_ids`); None for one in messages."""
    try:
        ids = parse_object(body).value("input_ids")
    except AskingError:
        return None
    return len(ids) if isinstance(ids, list) else None


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
