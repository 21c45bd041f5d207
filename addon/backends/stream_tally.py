"""Counts what passes by in a live chat stream: enough to tell what its capture will lack.

The logprobs of a stream can be lost on their way: SGLang without a parser drops those of a step that adds no
text. So they are counted against the ids, and both against the usage, over all choices together; the reader
of the record judges each choice by itself.
"""

from collections.abc import Collection, Mapping
from typing import Any

from turnstile.addon.backends.places import inner_object
from turnstile.addon.backends.restoring import Fact

ROW_MARK = b'"top_logprobs":'
"""Stands once in every row of logprobs and nowhere else: in a string a quote has a backslash before it."""


class StreamTally:
    """One stream's counts."""

    __slots__ = ("_aborted", "_failed", "_finished", "_known", "_sampled", "_usage", "rows")

    def __init__(self) -> None:
        self.rows = 0  # of logprobs
        self._sampled = 0  # ids
        self._usage: Any = None  # sampled tokens according to it
        self._known: set[Fact] = set()
        self._finished = self._aborted = self._failed = False

    def note(self, chunk: Mapping[str, Any]) -> None:
        """Counts a chunk's facts, except for its rows."""
        self._failed = self._failed or "error" in chunk
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            reason = choice.get("finish_reason") if isinstance(choice, dict) else None
            self._finished = self._finished or reason is not None
            self._aborted = self._aborted or reason == "abort"
        self._usage = inner_object(chunk, "usage").get("completion_tokens", self._usage)
        sglext = inner_object(chunk, "sglext")
        if sglext.get("input_ids"):
            self._known.add("prompt_token_ids")
        if isinstance(output_ids := sglext.get("output_ids"), list):
            self._known.add("sampled_token_ids")
            self._sampled = sum(len(ids) for ids in output_ids if isinstance(ids, list))
        if sglext.get("routed_experts") is not None:
            self._known.add("routed_experts")

    def missing(self, wanted: Collection[Fact]) -> tuple[Fact, ...]:
        """Those of `wanted` that a stream lacks which ended by itself.

        () for one that was cut off, was aborted or failed: there they may never have been.
        """
        came_to_its_end = self._finished and not self._aborted and not self._failed
        return self._lacking(wanted) if came_to_its_end else ()

    def _lacking(self, wanted: Collection[Fact]) -> tuple[Fact, ...]:
        known = set(self._known)
        if self._usage is not None and self._usage != self._sampled:
            known.discard("sampled_token_ids")
        if self.rows == self._sampled if "sampled_token_ids" in known else self.rows:
            known.add("logprobs")
        return tuple(fact for fact in wanted if fact not in known)
