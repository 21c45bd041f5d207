"""What a reply says at a glance: how many tokens, and why it ended; for somebody who looks on.

Found by text, for a reply of megabytes must not be parsed for a comment. In JSON a quote inside a string has
a backslash before it, so `"finish_reason":` stands for a key. What is spelled otherwise is not found, and
unknown.
"""

import re
from dataclasses import dataclass

from turnstile.addon.backends.usage import token_counts

_FINISH_KEY = b'"finish_reason":'
_FINISH = re.compile(rb'\s*(?:\{\s*"type"\s*:\s*)?"([a-z_]{1,40})"')
_NEAR = 64  # bytes of a finish reason and what is before it


@dataclass(frozen=True, slots=True)
class Glance:
    """None and () are unknown."""

    prompt_tokens: int | None
    sampled_tokens: int | None  # of all choices together
    finish_reasons: tuple[str, ...]  # each once; only "abort" where any place says so


def glance(reply: bytes) -> Glance:
    """At a chat completion, whole or streamed, or at anything else."""
    prompt, sampled = token_counts(reply) or (None, None)
    reasons = tuple(dict.fromkeys(_finish_reasons(reply)))
    return Glance(prompt, sampled, ("abort",) if "abort" in reasons else reasons)


def _finish_reasons(reply: bytes) -> list[str]:
    reasons, at = [], 0
    while (found := reply.find(_FINISH_KEY, at)) >= 0:
        at = found + len(_FINISH_KEY)
        if match := _FINISH.match(reply, at, at + _NEAR):
            reasons.append(match[1].decode())
    return reasons
