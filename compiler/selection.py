"""What of the sequences the user wants: none above a length, none whose routing cannot be believed.

A sequence that is too long is cut, everything it holds at the same token, and flagged `truncated`; the turns
of which no sampled token is left go. One of which nothing trainable is left stays out. Rows of the routing
that a turn which goes computed anew, and did not tell, are unknown in what is left as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.reading import UNTRUSTED
from turnstile.compiler.turn import Turn

TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Selection:
    """The user's wishes."""

    max_tokens: int | None = None
    trusted_only: bool = False  # without sequences that are flagged routing_untrusted

    def of(self, sequence: OpenSequence) -> OpenSequence | None:
        """What of a sequence is wanted; None for nothing."""
        limit, kept = self.max_tokens, sequence
        if limit is not None and len(sequence.tokens_T) > limit:
            if (cut := _cut(sequence, limit)) is None:
                return None
            kept = cut
        return None if self._is_distrusted(kept) else kept

    def findings(
        self, sequences: Sequence[OpenSequence], parts: Sequence[OpenSequence | None]
    ) -> Iterator[Finding]:
        """What is cut, one for each sequence, and what is left out, one for each of its calls.

        `parts` are what `of` gave for each.
        """
        for whole, kept in zip(sequences, parts, strict=True):
            too_long = (
                f"its sequence has {len(whole.tokens_T)} tokens, more than the {self.max_tokens} wanted"
            )
            if kept is None and not self._is_distrusted(whole):
                yield from (_place(turn).error("too_long", too_long) for turn in whole.turns)
            elif kept is None:
                message = "its sequence has routed experts that cannot be believed, and is not wanted"
                yield from (_place(turn).error(UNTRUSTED, message) for turn in whole.turns)
            elif kept is not whole:
                yield _place(whole.turns[0]).warning(TRUNCATED, f"{too_long}; it is cut")

    def _is_distrusted(self, sequence: OpenSequence) -> bool:
        return self.trusted_only and any(UNTRUSTED in turn.flags for turn in sequence.turns)


EVERYTHING = Selection()


def _cut(sequence: OpenSequence, max_tokens: int) -> OpenSequence | None:
    """A copy of at most `max_tokens`: the turns that sampled any of these, the last one cut.

    None when nothing trainable is left.
    """
    turns = [turn for turn in sequence.turns if len(turn.prompt_ids) < max_tokens]
    if turns:
        turns[-1] = _cut_turn(turns[-1], max_tokens - len(turns[-1].prompt_ids))
    if all(np.isnan(turn.logprobs).all() for turn in turns):
        return None
    size = len(turns[-1].prompt_ids) + len(turns[-1].sampled_ids)
    tokens_T, starts = sequence.tokens_T[:size], sequence.starts[: len(turns)]
    return replace(sequence, tokens_T=tokens_T, turns=turns, starts=starts)


def _cut_turn(turn: Turn, count: int) -> Turn:
    """A turn with the first `count` sampled ids at most."""
    return replace(
        turn,
        sampled_ids=turn.sampled_ids[:count],
        logprobs=turn.logprobs[:count],
        weight_spans=tuple(span for span in turn.weight_spans if span[0] < count),
    )


def _place(turn: Turn) -> Place:
    return Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
