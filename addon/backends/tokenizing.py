"""Asks the backend how it tokenises the messages of a chat request, template and tools included.

Both servers tell that at POST /tokenize: SGLang from 0.5.12 on. Of images they give the placeholders there,
not what these grow to. The ids stay text: nobody needs them as numbers here.

How much the context holds stands at GET /v1/models. The `max_model_len` that SGLang gives beside the ids is
the tokenizer's own, often more than the context.
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass

from turnstile.addon.backends.direct import direct_opener
from turnstile.addon.backends.errors import AskingError, BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.backends.json_edit import parse_object

TOKENIZES_CHATS_SINCE = (0, 5, 12)
LARGEST_BODY = 4 << 20  # bytes; more is images, which the count does not tell of
TIMEOUT_S = 10.0
_ANSWER_LIMIT_BYTES = 64 << 20
_TOKENS = re.compile(rb'"tokens"\s*:\s*\[')
_NONE_SUCH = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """The prompt that the backend makes of a request."""

    count: int  # of its tokens
    ids: bytes = b""  # a JSON array; empty where only the count is known


def can_tokenize(facts: BackendFacts | None) -> bool:
    """Whether the backend is known to tokenise a chat request."""
    if facts is None:
        return False
    return facts.kind == "vllm" or (facts.kind == "sglang" and at_least(facts, *TOKENIZES_CHATS_SINCE))


def tokenized(
    url: str, body: bytes, authorization: str | None, timeout_s: float = TIMEOUT_S
) -> TokenizedPrompt | None:
    """What the backend makes of the chat request in `body`; blocks for one request.

    None where it does not say: it would refuse the request, too. Raises BackendUnreachable when there is no
    such service, TimeoutError when it sends nothing for `timeout_s`.
    """
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": authorization} if authorization else {}
    )
    request = urllib.request.Request(f"{url}/tokenize", body, headers)
    try:
        with direct_opener().open(request, timeout=timeout_s) as answer:
            return _read(answer.read(_ANSWER_LIMIT_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _NONE_SUCH:
            raise BackendUnreachable(f"{url}/tokenize answers {error.code}") from None
        return None
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):  # as urllib wraps it
            raise TimeoutError from error
        return None


def listed_context(url: str, authorization: str | None, timeout_s: float = TIMEOUT_S) -> int | None:
    """The tokens that the context holds, as GET /v1/models says; blocks for one request.

    The least of all models there; None where none says it, or nothing answers.
    """
    headers = {"Authorization": authorization} if authorization else {}
    try:
        with direct_opener().open(
            urllib.request.Request(f"{url}/v1/models", None, headers), timeout=timeout_s
        ) as told:
            listed = json.loads(told.read(_ANSWER_LIMIT_BYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    models = listed.get("data") if isinstance(listed, dict) else None
    lengths = (
        [model.get("max_model_len") for model in models if isinstance(model, dict)]
        if isinstance(models, list)
        else []
    )
    return min((length for length in lengths if type(length) is int and length > 0), default=None)


def given_ids(body: bytes) -> int | None:
    """The length of a prompt that is given in tokens (`input_ids`); None for one in messages."""
    try:
        ids = parse_object(body).value("input_ids")
    except AskingError:
        return None
    return len(ids) if isinstance(ids, list) else None


def _read(answer: bytes) -> TokenizedPrompt | None:
    """The array of ids is cut out: parsing it would cost more than all the rest."""
    ids = b""
    if found := _TOKENS.search(answer):
        start, end = found.end() - 1, answer.find(b"]", found.end()) + 1
        ids, answer = answer[start:end], answer[:start] + b"0" + answer[end:]
    told = json.loads(answer)
    count = told.get("count") if isinstance(told, dict) else None
    return TokenizedPrompt(count, ids) if type(count) is int and count >= 0 else None
