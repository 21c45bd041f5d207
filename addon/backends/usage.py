"""How many tokens a reply says that it cost, found without parsing the reply.

An object's own `"usage"` is written with plain quotes; in a string, a model's words among them, a quote has a
backslash before it. The last one counts: of a stream it is that of the whole.
"""

import json
from typing import NamedTuple

from turnstile.addon.backends.json_edit import BYTE_FOR_BYTE

MARK = b'"usage"'
_LONGEST = 4096  # bytes of a usage object
_TRIES = 4
_decode = json.JSONDecoder().raw_decode


class TokenCounts(NamedTuple):
    """Tokens of one reply."""

    prompt: int
    sampled: int  # of all its choices


def token_counts(reply: bytes) -> TokenCounts | None:
    """What the usage of a whole reply or of a stream says; None where it says nothing."""
    end = len(reply)
    for _ in range(_TRIES):
        at = reply.rfind(MARK, 0, end)
        if at < 0:
            return None
        if (counts := _counts_behind(reply, at + len(MARK))) is not None:
            return counts
        end = at
    return None


def _counts_behind(reply: bytes, at: int) -> TokenCounts | None:
    text = reply[at : at + _LONGEST].decode(BYTE_FOR_BYTE).lstrip()
    try:
        usage, _ = _decode(text.removeprefix(":").lstrip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(usage, dict):
        return None
    prompt, sampled = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is int and type(sampled) is int and prompt >= 0 and sampled >= 0:
        return TokenCounts(prompt, sampled)
    return None
