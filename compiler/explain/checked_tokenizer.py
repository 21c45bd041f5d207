"""A tokenizer that was named for a log, believed as far as the log's own answers do not say otherwise.

One that spells a sampled token otherwise than the answer did is another model's: then only what the log tells
counts. Where a vocabulary merely lacks an id, the log tells that one.
"""

from turnstile.compiler.explain.token_texts import LearnedTexts, TokenTexts


class CheckedTokenizer:
    """The texts of a tokenizer and of a log's answers."""

    def __init__(self, tokenizer: TokenTexts) -> None:
        self._tokenizer = tokenizer
        self._told = dict[int, bytes]()
        self._is_foreign = False
        self.doubt = ""
        """What shows first that it is another model's, without a piece of any text; "" for nothing."""

    def check(self, learned: LearnedTexts) -> None:
        """Holds it against what some answers tell."""
        if learned.keeps_spaces:
            self._told |= learned.known
        contradicted = contradicted_id(learned, self._tokenizer)
        if contradicted is not None:
            self._is_foreign = True
            self._doubt(f"this tokenizer spells id {contradicted} otherwise than the log")

    def bytes_of(self, token_id: int) -> bytes | None:
        """What an id stands for; None where that is not known."""
        told = self._tokenizer.bytes_of(token_id)
        if told is None:
            self._doubt(f"id {token_id} is not in this tokenizer")
        return self._told.get(token_id) if told is None or self._is_foreign else told

    def _doubt(self, doubt: str) -> None:
        self.doubt = self.doubt or doubt


def contradicted_id(learned: LearnedTexts, tokenizer: TokenTexts) -> int | None:
    """The first id that the tokenizer has and spells otherwise than the answers; None for no such id.

    A space in front may have been lost where a backend decodes each token by itself.
    """
    for token_id, text in learned.known.items():
        told = tokenizer.bytes_of(token_id)
        if told is not None and text not in (told, told.removeprefix(b" ")):
            return token_id
    return None
