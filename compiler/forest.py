"""Merges the turns of one group into sequences: a forest of token paths.

Rules:
- A turn extends an open sequence when all of the sequence's tokens, sampled ones included, are an exact
  prefix of the turn's prompt, and what else is known of them agrees (OpenSequence.refuses): the images behind
  them, their routing. What the prompt has more is context, then come the sampled ids.
- Of several such sequences the longest, among equals one of the same rollout, then the one extended last.
- Without one the turn starts a sequence, its whole prompt context. So each sampled id is trained once.

The tokens of all sequences stand in a tree, see turnstile.compiler.token_tree.
"""

from collections.abc import Iterator

import numpy as np

from turnstile.compiler.open_sequence import OpenSequence, Refusal, Tokens, cached_rows
from turnstile.compiler.routing.changes import Mask
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.token_tree import Node, descend, insert
from turnstile.compiler.turn import Turn


class TrajectoryForest:
    """The sequences of one group; `add` its turns in causal order."""

    def __init__(self) -> None:
        self.sequences: list[OpenSequence] = []  # in the order in which they were started
        self._root = Node.root()
        self._turns = 0  # so far, and what else was computed
        self._unseen: dict[str | None, int] = {}  # by rollout, when nobody knows what was computed for it
        self._unread = 0  # when for none

    def add(self, turn: Turn, rows: RoutedRows | None = None) -> OpenSequence | None:
        """Extends the sequence that the turn continues, or starts one; gives the one that it started.

        `rows` is the turn's routing where it is known.
        """
        tokens_T: Tokens = np.concatenate((turn.prompt_ids, turn.sampled_ids))
        path = [self._root]
        at = descend(path, 0, tokens_T[: len(turn.prompt_ids)])
        sequence, refusal = self._continued(path, at, turn, rows)
        at = descend(path, at, tokens_T)
        started = None
        if sequence is None:
            sequence = started = OpenSequence()
            self.sequences.append(sequence)
            parent, shared = _parent(path, at, turn, refusal)
            if parent is not None:
                sequence.leave(parent, shared, turn, refusal)
                self._take_over(path, sequence, turn, rows)
        sequence.add(turn, tokens_T, rows, self._changed(path, sequence, len(sequence.tokens_T)))
        self._turns = sequence.latest = self._turns + 1
        _note_changes(path, at, sequence, cached_rows(turn))
        insert(path, at, sequence)
        return started

    def note_unread(self) -> None:
        """Takes in that nobody knows what was computed for an exchange, of whatever rollout."""
        self._turns = self._unread = self._turns + 1

    def note_computed(self, rollout_id: str | None, prompt_ids: Tokens | None, at_hand: int) -> None:
        """Takes in what was computed for an answer that is no turn, see Computed.

        Its rows stand in no sequence, and take the place of those that the backend had of the same tokens.
        """
        self._turns += 1
        if prompt_ids is None:
            self._unseen[rollout_id] = self._turns
            return
        path = [self._root]
        at = descend(path, 0, prompt_ids)
        for node in path:
            first, end = max(node.start, at_hand), min(node.end, at)
            node.changes.note_span(first - node.start, end - node.start, self._turns)

    def _continued(
        self, path: list[Node], at: int, turn: Turn, rows: RoutedRows | None
    ) -> tuple[OpenSequence | None, Refusal | None]:
        """The sequence that the turn extends, taken off the tree; else why the first choice refused.

        `path` holds the turn's first `at` tokens.
        """
        first_refusal = None
        for node in reversed(path):
            if node.ended and node.end <= at:
                for sequence in _by_preference(node.ended, turn.rollout_id):
                    refusal = sequence.refuses(turn, rows) or self._overtaken(path, sequence, rows)
                    if refusal is None:
                        node.ended.remove(sequence)
                        return sequence, None
                    first_refusal = first_refusal or refusal
        return None, first_refusal

    def _overtaken(self, path: list[Node], sequence: OpenSequence, rows: RoutedRows | None) -> Refusal | None:
        """Why rows before those that an answer tells may be others: another turn changed them since."""
        if rows is None or not rows.start:
            return None
        row = sequence.routing.first_known_of(self._changed(path, sequence, rows.start))
        if row is None:
            return None
        message = (
            f"row {row} was computed again for another turn since; its experts are others then, or not told"
        )
        return Refusal(sequence, "routing_changed", message)

    def _changed(self, path: list[Node], sequence: OpenSequence, count: int) -> Mask:
        """Which of the first `count` rows, or of fewer, changed since the sequence's last turn."""
        latest = sequence.latest
        unseen = (self._unseen.get(rollout_id, 0) for rollout_id in sequence.rollout_ids)
        if max((self._unread, *unseen)) > latest:
            return np.ones(count, np.bool_)
        passed = [node for node in path if node.start < count]
        while passed and passed[-1].changes.latest <= latest:
            passed.pop()
        found = [node.changes.since(latest, min(node.end, count) - node.start) for node in passed]
        return np.concatenate(found) if found else np.empty(0, np.bool_)

    def _take_over(
        self, path: list[Node], sequence: OpenSequence, turn: Turn, rows: RoutedRows | None
    ) -> None:
        """Gives a new sequence its parent's rows before those that its first answer tells.

        They are its own where the backend computed none of them anew, now or for another turn, and the rows
        that both know agree.
        """
        parent, shared = sequence.parent, sequence.shared_tokens
        if rows is None or parent is None or not 0 < rows.start <= min(shared, cached_rows(turn)):
            return
        before = parent.routing.beginning(rows.start)
        told = RoutedRows(rows.start, rows.experts[: shared - rows.start], rows.has_shape)
        agree = self._overtaken(path, parent, rows) is None and parent.routing.difference(told) is None
        if before is not None and agree:
            sequence.routing.add(before)


def _note_changes(path: list[Node], at: int, sequence: OpenSequence, at_hand: int) -> None:
    """Notes where the sequence's last turn, which computed what was not at hand, found or left other rows."""
    for node in path:
        if node.latest is None or not node.label.size:
            continue
        if sequence.routing.is_empty and node.latest.routing.is_empty:  # nothing is told on either side
            first, end = max(node.start, at_hand), min(node.end, at)
            node.changes.note_span(first - node.start, end - node.start, sequence.latest)
        else:
            unlike = sequence.routing.unlike(node.latest.routing, node.start, min(node.end, at), at_hand)
            node.changes.note(unlike, sequence.latest)


def _by_preference(ended: list[OpenSequence], rollout_id: str | None) -> Iterator[OpenSequence]:
    """Those of the rollout, then all others; of each the latest first."""
    yield from (sequence for sequence in reversed(ended) if sequence.turns[-1].rollout_id == rollout_id)
    yield from (sequence for sequence in reversed(ended) if sequence.turns[-1].rollout_id != rollout_id)


def _parent(
    path: list[Node], at: int, turn: Turn, refusal: Refusal | None
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
