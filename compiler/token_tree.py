"""The tokens of a group's sequences in a radix tree.

On one walk down its own prompt a turn meets all sequences that end on its way. Whole arrays are compared: the
cost is linear in the prompt, whatever the number of open sequences.
"""

import numpy as np

from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.routing.changes import RowChanges


class Node:
    """An edge of the tree: the tokens from `start` on that lead to its end, and what hangs below."""

    __slots__ = ("changes", "children", "ended", "label", "latest", "latest_of", "start")

    def __init__(self, label: Tokens, start: int) -> None:
        self.label = label
        self.start = start
        self.children: dict[int, Node] = {}
        self.ended: list[OpenSequence] = []  # open sequences that end where the label ends, latest last
        self.latest: OpenSequence | None = None  # the last one that came through here
        self.latest_of: dict[str | None, OpenSequence] = {}  # and the last of each rollout
        self.changes = RowChanges()  # of the label's tokens

    @classmethod
    def root(cls) -> "Node":
        """An empty tree."""
        return cls(np.empty(0, np.int32), 0)

    @property
    def end(self) -> int:
        """Index behind the label's last token."""
        return self.start + len(self.label)

    def note(self, sequence: OpenSequence) -> None:
        """The sequence comes through here."""
        self.latest = sequence
        for rollout_id in sequence.rollout_ids:
            self.latest_of[rollout_id] = sequence


def descend(path: list[Node], at: int, tokens_T: Tokens) -> int:
    """Follows the tokens from index `at`, which lies in or behind the last node of `path`.

    Appends the nodes it enters and returns how many of the tokens are in the tree.
    """
    node = path[-1]
    while True:
        at += equal_front(node.label[at - node.start :], tokens_T[at:])
        if at < node.end or at == len(tokens_T) or (below := node.children.get(int(tokens_T[at]))) is None:
            return at
        node = below
        path.append(node)


def insert(path: list[Node], at: int, sequence: OpenSequence) -> None:
    """Ends the sequence in the tree, of which the nodes of `path` hold its first `at` tokens."""
    node = path[-1]
    if at < node.end:
        _split(node, at)
    for passed in path:
        passed.note(sequence)
    if at < len(sequence.tokens_T):
        node = _grown(node, sequence)
    node.note(sequence)
    node.ended.append(sequence)


def _split(node: Node, at: int) -> None:
    """Cuts the node's label before token index `at`; what hung below it hangs below the second part."""
    cut = at - node.start
    below = Node(node.label[cut:].copy(), at)
    below.children, below.ended = node.children, node.ended
    below.latest, below.latest_of = node.latest, dict(node.latest_of)
    below.changes = node.changes.cut(cut)
    # copies, because a view would keep the whole of an outdated sequence in memory
    node.label, node.children, node.ended = node.label[:cut].copy(), {int(below.label[0]): below}, []


def _grown(node: Node, sequence: OpenSequence) -> Node:
    """The node at which the sequence's tokens end, all of which up to the end of `node` are in the tree."""
    tokens_T = sequence.tokens_T
    if node.end and not node.children and not node.ended:
        node.label = tokens_T[node.start :]  # a rollout that only grows stays one node
        return node
    if node.label.base is not None:
        node.label = node.label.copy()
    below = node.children[int(tokens_T[node.end])] = Node(tokens_T[node.end :], node.end)
    return below


def equal_front(one: Tokens, other: Tokens) -> int:
    """The length of the longest common prefix."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    return size if not differs.any() else int(differs.argmax())
