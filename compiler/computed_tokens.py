"""Remembers for every token that a group's turns had in their paths who computed its keys and values last.

Turns with a common beginning share what is known of it, so the tokens stand in a radix tree. A path is
walked once, comparing whole arrays: the cost is linear in its length.
"""

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.open_sequence import Tokens
from turnstile.compiler.token_tree import equal_front

Codes = NDArray[np.int32]  # a code for each token: who computed it, UNKNOWN or NEW

UNKNOWN = -1
NEW = -2
"""The path to this token was not there before."""


class ComputedTokens:
    """Who computed what, by the path of tokens that leads there."""

    def __init__(self) -> None:
        self._root = _Node(np.empty(0, np.int32), np.empty(0, np.int32))

    def path(self, tokens_T: Tokens) -> list[Codes]:
        """The codes of these tokens in consecutive pieces, to be read and written to until the next call."""
        node, at, pieces = self._root, 0, list[Codes]()
        while at < len(tokens_T):
            below = node.children.get(int(tokens_T[at]))
            if below is None:
                if pieces and not node.children:  # a rollout that only grows stays one edge
                    return [*pieces[:-1], node.lengthened(tokens_T[at:])]
                return [*pieces, node.branched(tokens_T[at:])]
            shared = equal_front(below.label, tokens_T[at:])
            if shared < len(below.label):
                below.split(shared)
            pieces.append(below.codes)
            node, at = below, at + shared
        return pieces


class _Node:
    """An edge of the tree."""

    __slots__ = ("children", "codes", "label")

    def __init__(self, label: Tokens, codes: Codes) -> None:
        self.label = label
        self.codes = codes
        self.children: dict[int, _Node] = {}

    def lengthened(self, tokens_T: Tokens) -> Codes:
        """Puts tokens at the end of the edge and gives the codes of all; theirs are NEW."""
        self.label = np.concatenate((self.label, tokens_T))
        self.codes = np.concatenate((self.codes, _new(tokens_T)))
        return self.codes

    def branched(self, tokens_T: Tokens) -> Codes:
        """Hangs tokens below the edge and gives their codes, which are NEW."""
        below = self.children[int(tokens_T[0])] = _Node(tokens_T, _new(tokens_T))
        return below.codes

    def split(self, size: int) -> None:
        """Cuts the edge after `size` tokens; what hung below it hangs below the second part."""
        below = _Node(self.label[size:], self.codes[size:])
        below.children = self.children
        self.label, self.codes, self.children = (
            self.label[:size],
            self.codes[:size],
            {int(below.label[0]): below},
        )


def _new(tokens_T: Tokens) -> Codes:
    return np.full(len(tokens_T), NEW, np.int32)
