"""What a reply says at a glance: how many tokens, and why it ended; for somebody who looks on.

Found by text, for a reply of megabytes must not be parsed for a comment. In JSON a quote inside a string has
a backslash before it, so `"usage":` stands for a key. What is spelled otherwise is not found, and unknown.
"""

import re
from dataclasses import dataclass

_FINISH_KEY, _USAGE_KEY = b'"finish_reason":', b'"usage":'
_FINISH = re.compile(rb'\s*(?:\{\s*"type"\s*:\s*)?"([a-z_]{1,40})"')
_PROMPT = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,12})')
_COMPLETION = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,12})')
_USAGE_BYTES = 2048  # a usage is shorter, and stands near the end
_NEAR = 64  # bytes of a finish reason and what is before it


@dataclass(frozen=True, slots=True)
class Glance:
    """None and () are unknown."""

    prompt_tokens: int | None
    sampled_tokens: int | None  # of all choices together
    finish_reasons: tuple[str, ...]  # each once; only "abort" where any place says so


def glance(reply: bytes) -> Glance:
    """At a chat completion, whole or streamed, or at anything else."""
    usage = _usage(reply)
    reasons = tuple(dict.fromkeys(_finish_reasons(reply)))
    return Glance(
        _number(_PROMPT, usage), _number(_COMPLETION, usage), ("abort",) if "abort" in reasons else reasons
    )


def _usage(reply: bytes) -> bytes:
    """The beginning of the last usage that is none of a chunk that has null there."""
    end = len(reply)
    while (at := reply.rfind(_USAGE_KEY, 0, end)) >= 0:
        usage = reply[at + len(_USAGE_KEY) : at + _USAGE_BYTES].lstrip()
        if usage.startswith(b"{"):
            return usage
        end = at
    return b""


def _finish_reasons(reply: bytes) -> list[str]:
    reasons, at = [], 0
    while (found := reply.find(_FINISH_KEY, at)) >= 0:
        at = found + len(_FINISH_KEY)
        if match := _FINISH.match(reply, at, at + _NEAR):
            reasons.append(match[1].decode())
    return reasons


def _number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None
