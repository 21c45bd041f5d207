"""How long a prompt must at least be, from what earlier replies told of prompts that it begins with.

An earlier exchange counts when it had the same tools and its messages are the first of these, byte for byte:
a sub-agent's short prompt owes nothing to the long one of its rollout. Where the rollout is named and the
message behind them is the assistant's, what was sampled counts as well. A template may leave out what it
wrote before, thinking mostly: so this is a good guess, and no proof.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.json_edit import JsonObject, array_items, parse_object
from turnstile.addon.backends.usage import TokenCounts

REMEMBERED = 1024  # exchanges of a group


class Opening(NamedTuple):
    """The first messages of a request."""

    digest: bytes  # of these messages and the tools
    answered: bool  # the message behind them is the assistant's


def openings(body: bytes) -> list[Opening]:
    """Those of a chat request, the shortest first, the last one of all messages; [] where it has none."""
    try:
        request = parse_object(body)
        messages = request.member("messages")
        if messages is None:
            return []
        spans = array_items(body, messages.value_start, messages.value_end)
        assistants = [_is_assistant(body[start:end]) for start, end in spans]
    except (AskingError, ValueError):
        return []
    digest = hashlib.sha256(_raw(request, "tools"))
    found = []
    for at, (start, end) in enumerate(spans):
        digest.update(b"%d:" % (end - start) + body[start:end])
        found.append(Opening(digest.digest(), at + 1 < len(spans) and assistants[at + 1]))
    return found


class KnownLengths:
    """The prompts of one group's exchanges."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str | None, bytes], TokenCounts] = OrderedDict()

    def note(self, rollout_id: str | None, whole: Opening, counts: TokenCounts) -> None:
        """A prompt of these messages had so many tokens, and brought one choice of so many."""
        key = (rollout_id, whole.digest)
        self._told[key] = counts
        self._told.move_to_end(key)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    def at_least(self, rollout_id: str | None, found: Sequence[Opening]) -> int:
        """How many tokens a prompt with these openings has at least, as far as is known."""
        known = 0
        for opening in found:
            counts = self._told.get((rollout_id, opening.digest))
            if counts is not None:
                sampled = counts.sampled if opening.answered and rollout_id is not None else 0
                known = max(known, counts.prompt + sampled)
        return known


def _is_assistant(message: bytes) -> bool:
    return message.startswith(b"{") and parse_object(message).value("role") == "assistant"


def _raw(request: JsonObject, key: str) -> bytes:
    member = request.member(key)
    return b"" if member is None else request.body[member.value_start : member.value_end]
