"""How many of a sequence's context tokens stand at the beginning of an earlier sequence already.

They are what not merging costs: a trainer computes them again. The sequences of a group are given in the
order in which they were started; the cost is linear in their tokens.
"""

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.computed_tokens import NEW, ComputedTokens
from turnstile.compiler.open_sequence import Tokens

_SEEN = 0


class RepeatedTokens:
    """What the sequences of one group, so far, began with."""

    def __init__(self) -> None:
        self._seen = ComputedTokens()

    def add(self, tokens_T: Tokens, trained_T: NDArray[np.bool_]) -> int:
        """Takes in a sequence; gives the number of its tokens that are repeated, and not trained."""
        path = self._seen.path(tokens_T)
        known_T = np.concatenate(path) != NEW
        for part in path:
            part[:] = _SEEN
        return int((known_T & ~trained_T).sum())
