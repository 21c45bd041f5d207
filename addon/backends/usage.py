"""How many tokens a reply says that it cost, found without parsing the reply where that is enough.

An object's own `"usage"` is written with plain quotes; in a string, a model's words among them, a quote has a
backslash before it. The last one counts: of a stream it is that of the whole.
"""

import json
import re
from typing import NamedTuple

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.json_edit import BYTE_FOR_BYTE
from turnstile.addon.backends.reading import read_chat

MARK = b'"usage"'
_OBJECT = re.compile(rb"\s*:\s*(?=\{)")  # behind a key; a sampled token that is spelled so is no key
_LONGEST = 4096  # bytes of a usage object
_decode = json.JSONDecoder().raw_decode


class TokenCounts(NamedTuple):
    """Tokens of one reply."""

    prompt: int
    sampled: int  # of all its choices


def token_counts(reply: bytes) -> TokenCounts | None:
    """What the usage of a whole reply or of a stream says; None where it says nothing."""
    end = len(reply)
    while (at := reply.rfind(MARK, 0, end)) >= 0:
        found = _OBJECT.match(reply, at + len(MARK))
        if found and (counts := _counts_at(reply, found.end())) is not None:
            return counts
        end = at
    return None


def longest_answer(reply: bytes, sampled: int, *, choices: int) -> int:
    """Tokens of the longest of `choices` in a whole reply, of `sampled` together.

    Their mean where the reply does not tell of each: so many it has at least.
    """
    if choices == 1:
        return sampled
    try:
        found = read_chat(reply)
    except UndecodableReply:
        found = []
    columns = (column for each in found for column in (*each.sampled_ids.values(), *each.logprobs.values()))
    return max(-(-sampled // choices), *map(len, columns), 0)


def _counts_at(reply: bytes, at: int) -> TokenCounts | None:
    try:
        usage, _ = _decode(reply[at : at + _LONGEST].decode(BYTE_FOR_BYTE))
    except (ValueError, RecursionError):
        return None
    prompt, sampled = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is int and type(sampled) is int and prompt >= 0 and sampled >= 0:
        return TokenCounts(prompt, sampled)
    return None
