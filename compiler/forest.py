"""Merges the turns of one group into sequences: a forest of token paths.

Rules:
- A turn extends an open sequence when all of the sequence's tokens, sampled ones included, are an exact
  prefix of the turn's prompt, and what else is known of them agrees (OpenSequence.refuses): the images behind
  them, their routing. What the prompt has more is context, then come the sampled ids.
- Of several such sequences the longest, among equals one of the same rollout, then the one extended last.
- Without one the turn starts a sequence, its whole prompt context. So each sampled id is trained once.

The tokens of all sequences stand in a radix tree. A turn walks down its own prompt once, comparing whole
arrays, and meets every sequence that ends on its way: the cost is linear in the prompt, whatever the
number of open sequences.
"""

from collections.abc import Iterator

import numpy as np

from turnstile.compiler.open_sequence import OpenSequence, Refusal, Tokens, cached_rows
from turnstile.compiler.routing.changes import Mask, RowChanges
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn


class TrajectoryForest:
    """The sequences of one group; `add` its turns in causal order."""

    def __init__(self) -> None:
        self.sequences: list[OpenSequence] = []  # in the order in which they were started
        self._root = _Node(np.empty(0, np.int32), 0)
        self._turns = 0  # so far

    def add(self, turn: Turn, rows: RoutedRows | None = None) -> OpenSequence | None:
        """Extends the sequence that the turn continues, or starts one; gives the one that it started.

        `rows` is the turn's routing where it is known.
        """
        tokens_T: Tokens = np.concatenate((turn.prompt_ids, turn.sampled_ids))
        path = [self._root]
        at = _descend(path, 0, tokens_T[: len(turn.prompt_ids)])
        sequence, refusal = _continued(path, at, turn, rows)
        at = _descend(path, at, tokens_T)
        started = None
        if sequence is None:
            sequence = started = OpenSequence()
            self.sequences.append(sequence)
            parent, shared = _parent(path, at, turn, refusal)
            if parent is not None:
                sequence.leave(parent, shared, turn, refusal)
                _take_over(path, sequence, turn, rows)
        sequence.add(turn, tokens_T, rows, _changed(path, sequence, len(sequence.tokens_T)))
        self._turns = sequence.latest = self._turns + 1
        _note_changes(path, at, sequence, cached_rows(turn))
        _insert(path, at, sequence)
        return started


class _Node:
    """An edge of the tree: the tokens from `start` on that lead to its end, and what hangs below."""

    __slots__ = ("changes", "children", "ended", "label", "latest", "latest_of", "start")

    def __init__(self, label: Tokens, start: int) -> None:
        self.label = label
        self.start = start
        self.children: dict[int, _Node] = {}
        self.ended: list[OpenSequence] = []  # open sequences that end where the label ends, latest last
        self.latest: OpenSequence | None = None  # the last one that came through here
        self.latest_of: dict[str | None, OpenSequence] = {}  # and the last of each rollout
        self.changes = RowChanges()  # of the label's tokens

    def note(self, sequence: OpenSequence) -> None:
        """The sequence comes through here."""
        self.latest = sequence
        for rollout_id in sequence.rollout_ids:
            self.latest_of[rollout_id] = sequence

    @property
    def end(self) -> int:
        return self.start + len(self.label)


def _descend(path: list[_Node], at: int, tokens_T: Tokens) -> int:
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


def _insert(path: list[_Node], at: int, sequence: OpenSequence) -> None:
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


def _split(node: _Node, at: int) -> None:
    """Cuts the node's label before token index `at`; what hung below it hangs below the second part."""
    cut = at - node.start
    below = _Node(node.label[cut:].copy(), at)
    below.children, below.ended = node.children, node.ended
    below.latest, below.latest_of = node.latest, dict(node.latest_of)
    below.changes = node.changes.cut(cut)
    # copies, because a view would keep the whole of an outdated sequence in memory
    node.label, node.children, node.ended = node.label[:cut].copy(), {int(below.label[0]): below}, []


def _grown(node: _Node, sequence: OpenSequence) -> _Node:
    """The node at which the sequence's tokens end, all of which up to the end of `node` are in the tree."""
    tokens_T = sequence.tokens_T
    if node.end and not node.children and not node.ended:
        node.label = tokens_T[node.start :]  # a rollout that only grows stays one node
        return node
    if node.label.base is not None:
        node.label = node.label.copy()
    below = node.children[int(tokens_T[node.end])] = _Node(tokens_T[node.end :], node.end)
    return below


def _continued(
    path: list[_Node], at: int, turn: Turn, rows: RoutedRows | None
) -> tuple[OpenSequence | None, Refusal | None]:
    """The sequence that the turn extends, taken off the ends of the tree; else why the first choice refused.

    `path` holds the turn's first `at` tokens.
    """
    first_refusal = None
    for node in reversed(path):
        if node.ended and node.end <= at:
            for sequence in _by_preference(node.ended, turn.rollout_id):
                refusal = sequence.refuses(turn, rows) or _overtaken(path, sequence, rows)
                if refusal is None:
                    node.ended.remove(sequence)
                    return sequence, None
                first_refusal = first_refusal or refusal
    return None, first_refusal


def _overtaken(path: list[_Node], sequence: OpenSequence, rows: RoutedRows | None) -> Refusal | None:
    """Why rows before those that an answer tells may be others: another turn changed them since."""
    if rows is None or not rows.start:
        return None
    row = sequence.routing.first_known_of(_changed(path, sequence, rows.start))
    if row is None:
        return None
    message = f"row {row} was computed again for another turn since; its experts are others then, or not told"
    return Refusal(sequence, "routing_changed", message)


def _changed(path: list[_Node], sequence: OpenSequence, count: int) -> Mask:
    """Which of the first `count` rows other turns made other ones since the sequence's last turn."""
    passed = (node for node in path if node.start < count)
    return np.concatenate(
        [node.changes.since(sequence.latest, min(node.end, count) - node.start) for node in passed]
        or [np.empty(0, np.bool_)]
    )


def _note_changes(path: list[_Node], at: int, sequence: OpenSequence, at_hand: int) -> None:
    """Notes where the sequence's last turn, which computed what was not at hand, found or left other rows."""
    for node in path:
        if node.latest is not None and node.label.size:
            unlike = sequence.routing.unlike(node.latest.routing, node.start, min(node.end, at), at_hand)
            node.changes.note(unlike, sequence.latest)


def _by_preference(ended: list[OpenSequence], rollout_id: str | None) -> Iterator[OpenSequence]:
    """Those of the rollout, then all others; of each the latest first."""
    yield from (sequence for sequence in reversed(ended) if sequence.turns[-1].rollout_id == rollout_id)
    yield from (sequence for sequence in reversed(ended) if sequence.turns[-1].rollout_id != rollout_id)


def _parent(
    path: list[_Node], at: int, turn: Turn, refusal: Refusal | None
) -> tuple[OpenSequence | None, int]:
    """The sequence that a new one is told to have left, and how many tokens they share.

    The one that refused its turn; else the last one of the same rollout on the path, for that is what a user
    asks about; else the last of any.
    """
    if refusal is not None:
        return refusal.sequence, len(refusal.sequence.tokens_T)
    rollout_id = turn.rollout_id
    own = ((node, node.latest_of[rollout_id]) for node in reversed(path) if rollout_id in node.latest_of)
    node, sequence = next(own, (path[-1], path[-1].latest))
    return (sequence, min(at, node.end)) if node.end else (path[-1].latest, at)


def _take_over(path: list[_Node], sequence: OpenSequence, turn: Turn, rows: RoutedRows | None) -> None:
    """Gives a new sequence its parent's rows before those that its first answer tells.

    They are its own where the backend computed none of them anew, now or for another turn, and the rows that
    both know agree.
    """
    parent, shared = sequence.parent, sequence.shared_tokens
    if rows is None or parent is None or not 0 < rows.start <= min(shared, cached_rows(turn)):
        return
    before = parent.routing.beginning(rows.start)
    told = RoutedRows(rows.start, rows.experts[: shared - rows.start], rows.has_shape)
    agree = _overtaken(path, parent, rows) is None and parent.routing.difference(told) is None
    if before is not None and agree:
        sequence.routing.add(before)


def equal_front(one: Tokens, other: Tokens) -> int:
    """The length of the longest common prefix."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    return size if not differs.any() else int(differs.argmax())
