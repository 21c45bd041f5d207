"""Merges the turns of one group into sequences: a forest of token paths.

Rules:
- A turn extends an open sequence when all of the sequence's tokens, sampled ones included, are an exact
  prefix of the turn's prompt. What the prompt has more is context, then come the sampled ids.
- And the images behind those tokens are the same bytes in the same order.
- Of several such sequences the longest, among equals one of the same rollout, then the one extended last.
- Without one the turn starts a sequence, its whole prompt context. So each sampled id is trained once.

The tokens of all sequences stand in a radix tree. A turn walks down its own prompt once, comparing whole
arrays, and meets every sequence that ends on its way: the cost is linear in the prompt, whatever the
number of open sequences.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.images.agreement import agreed_size, images_agree
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.turn import Turn

Tokens = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class OpenSequence:
    """A path of the forest that turns may still extend."""

    tokens_T: Tokens = field(default_factory=lambda: np.empty(0, np.int32))  # context and sampled ids
    turns: list[Turn] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # starts[i]: number of tokens before turn i was added
    rollout_ids: set[str | None] = field(default_factory=set)  # of its turns; nearly always one
    parent: "OpenSequence | None" = None
    """The earlier sequence that shares the longest beginning, of the same rollout if one shares any."""
    parent_turn: Turn | None = None  # the turn of the parent in which, or behind which, they part
    shared_tokens: int = 0  # length of the common beginning, images included
    other_images: Turn | None = None
    """The turn of an earlier one that it would go on, or share a sampled token with, but for its images."""

    def add(self, turn: Turn, tokens_T: Tokens) -> None:
        """Takes in a turn that extends it; `tokens_T` are the turn's prompt and sampled ids."""
        self.turns.append(turn)
        self.rollout_ids.add(turn.rollout_id)
        self.starts.append(len(self.tokens_T))
        self.tokens_T = tokens_T

    @property
    def images(self) -> tuple[PromptImage, ...]:
        """The images of its prompts; the last one has those of all."""
        return self.turns[-1].images if self.turns else ()

    def turn_at(self, index: int) -> Turn:
        """The turn that added token `index`, the last one for an index past the end."""
        added = zip(reversed(self.turns), reversed(self.starts), strict=True)
        return next(turn for turn, start in added if start <= index)


class TrajectoryForest:
    """The sequences of one group; `add` its turns in causal order."""

    def __init__(self) -> None:
        self.sequences: list[OpenSequence] = []  # in the order in which they were started
        self._root = _Node(np.empty(0, np.int32), 0)

    def add(self, turn: Turn) -> OpenSequence | None:
        """Extends the sequence that the turn continues, or starts one; gives the one that it started."""
        tokens_T: Tokens = np.concatenate((turn.prompt_ids, turn.sampled_ids))
        path = [self._root]
        at = _descend(path, 0, tokens_T[: len(turn.prompt_ids)])
        reached = [node.ended for node in reversed(path) if node.ended and node.end <= at]
        agreeing = ((ended, [each for each in ended if _agree(each, turn)]) for ended in reached)
        ended, fitting = next(((ended, fit) for ended, fit in agreeing if fit), ([], []))
        at = _descend(path, at, tokens_T)
        started = None
        if fitting:
            sequence = _latest_of_rollout(fitting, turn.rollout_id)
            ended.remove(sequence)
        else:
            sequence = started = self._start(turn, *_nearest(path, at, turn.rollout_id))
            if reached:
                sequence.other_images = _latest_of_rollout(reached[0], turn.rollout_id).turns[-1]
        sequence.add(turn, tokens_T)
        _insert(path, at, sequence)
        return started

    def _start(self, turn: Turn, parent: OpenSequence | None, shared_tokens: int) -> OpenSequence:
        sequence = OpenSequence()
        if parent is not None:
            agreed = agreed_size(parent.images, turn.images, shared_tokens)
            resent = min(shared_tokens, len(turn.prompt_ids))
            if agreed < resent and len(parent.turns[0].prompt_ids) < resent:
                sequence.other_images = parent.turn_at(resent - 1)
            shared_tokens = agreed
        if parent is not None and shared_tokens:
            sequence.parent, sequence.shared_tokens = parent, shared_tokens
            sequence.parent_turn = parent.turn_at(shared_tokens)
        self.sequences.append(sequence)
        return sequence


class _Node:
    """An edge of the tree: the tokens from `start` on that lead to its end, and what hangs below."""

    __slots__ = ("children", "ended", "label", "latest", "latest_of", "start")

    def __init__(self, label: Tokens, start: int) -> None:
        self.label = label
        self.start = start
        self.children: dict[int, _Node] = {}
        self.ended: list[OpenSequence] = []  # open sequences that end where the label ends, latest last
        self.latest: OpenSequence | None = None  # the last one that came through here
        self.latest_of: dict[str | None, OpenSequence] = {}  # and the last of each rollout

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


def _nearest(path: list[_Node], at: int, rollout_id: str | None) -> tuple[OpenSequence | None, int]:
    """The sequence that a new one is told to have left, and how many tokens they share.

    The last one of the same rollout on the path, for that is what a user asks about, else of any.
    """
    own = ((node, node.latest_of[rollout_id]) for node in reversed(path) if rollout_id in node.latest_of)
    node, sequence = next(own, (path[-1], path[-1].latest))
    return (sequence, min(at, node.end)) if node.end else (path[-1].latest, at)


def _agree(sequence: OpenSequence, turn: Turn) -> bool:
    """Whether a turn whose prompt has all tokens of the sequence has its images too."""
    return images_agree(sequence.images, turn.images, len(sequence.tokens_T))


def _latest_of_rollout(ended: list[OpenSequence], rollout_id: str | None) -> OpenSequence:
    own = (sequence for sequence in reversed(ended) if sequence.turns[-1].rollout_id == rollout_id)
    return next(own, ended[-1])


def equal_front(one: Tokens, other: Tokens) -> int:
    """The length of the longest common prefix."""
    size = min(len(one), len(other))
    differs = one[:size] != other[:size]
    return size if not differs.any() else int(differs.argmax())
