"""Two turns to compare: one that started a sequence, and the earlier one in whose tokens it left another."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.compiler.explain.parting import Parting
from turnstile.compiler.explain.said import Said
from turnstile.compiler.explain.token_texts import Spelling, TokenTexts, text_of
from turnstile.compiler.open_sequence import Tokens
from turnstile.compiler.turn import Turn


@dataclass(frozen=True, slots=True)
class Pair:
    """The turns, what was said in them, and where their ids part."""

    earlier: Turn
    later: Turn
    earlier_T: Tokens  # the earlier turn's whole path
    is_first: bool  # the earlier turn is the first of its sequence
    parting: Parting
    spelling: Spelling
    earlier_said: Said
    later_said: Said
    texts: TokenTexts

    @property
    def is_in_prompt(self) -> bool:
        """Whether they part in what the earlier turn was given, before what it sampled.

        A prompt that ends with a mark of thinking has begun the answer. Where the last ids of the prompt are
        spelled together with what follows, only the texts tell.
        """
        start, end = self.parting.start, len(self.earlier.prompt_ids)
        rest = self.earlier.prompt_ids[start:].tolist()
        known = text_of(rest, self.texts)
        if known.strip() == b"<think>":
            return False
        now = text_of(self.later.prompt_ids[start : start + 2 * len(rest)].tolist(), self.texts)
        return start < end and not (known and self.is_known(rest) and now.startswith(known))

    def is_known(self, ids: Sequence[int]) -> bool:
        """Whether the bytes of all these ids are known."""
        return all(self.texts.bytes_of(token_id) is not None for token_id in ids)
