"""A path of tokens that turns may still extend, and why one of them may not."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.routing.joined import KnownRouting
from turnstile.compiler.routing.rows import RoutedRows, RowDifference
from turnstile.compiler.sequence import Cause
from turnstile.compiler.turn import Turn

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A turn's prompt begins with all tokens of `sequence`, and yet it does not go on it."""

    sequence: "OpenSequence"
    cause: Cause
    message: str  # where they differ, found against known


@dataclass(slots=True, eq=False)
class OpenSequence:
    """The turns of one path so far, and what is known of its tokens."""

    tokens_T: Tokens = field(default_factory=lambda: np.empty(0, np.int32))  # context and sampled ids
    turns: list[Turn] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # starts[i]: number of tokens before turn i was added
    rollout_ids: set[str | None] = field(default_factory=set)  # of its turns; nearly always one
    routing: KnownRouting = field(default_factory=KnownRouting)
    parent: "OpenSequence | None" = None
    """The earlier sequence that shares the longest beginning, of the same rollout if one shares any."""
    parent_turn: Turn | None = None  # the turn of the parent in which, or behind which, they part
    shared_tokens: int = 0  # length of the common beginning
    refusal: Refusal | None = None  # of the longest sequence that its first turn would have extended

    def add(self, turn: Turn, tokens_T: Tokens, rows: RoutedRows | None = None) -> None:
        """Takes in a turn that extends it; `tokens_T` are its prompt and sampled ids, `rows` its routing."""
        self.turns.append(turn)
        self.rollout_ids.add(turn.rollout_id)
        self.starts.append(len(self.tokens_T))
        self.tokens_T = tokens_T
        if rows is not None:
            self.routing.add(rows)

    def leave(self, parent: "OpenSequence", shared_tokens: int, refusal: Refusal | None) -> None:
        """Notes the earlier sequence that this new one left after a common beginning."""
        self.parent, self.shared_tokens, self.refusal = parent, shared_tokens, refusal
        self.parent_turn = parent.turn_at(shared_tokens)

    def turn_at(self, index: int) -> Turn:
        """The turn that added token `index`, the last one for an index past the end."""
        added = zip(reversed(self.turns), reversed(self.starts), strict=True)
        return next(turn for turn, start in added if start <= index)

    def refuses(self, turn: Turn, rows: RoutedRows | None) -> Refusal | None:
        """Why `turn`, whose prompt begins with all tokens of this, does not go on it; None when it does."""
        if rows is None or self.routing.is_empty:
            return None
        if (difference := self.routing.difference(rows)) is not None:
            return Refusal(self, "routing_changed", _changed(difference, turn))
        at_hand = cached_rows(turn)
        if (row := self.routing.first_known(at_hand, rows.start)) is None:
            return None
        message = (
            f"rows {row} to {rows.start - 1} were computed again (the backend had {at_hand} tokens of "
            f"{len(turn.prompt_ids)} at hand), and the answer tells only the rows from {rows.start} on"
        )
        return Refusal(self, "routing_changed", message)


def cached_rows(turn: Turn) -> int:
    """How many tokens of its prompt were certainly not computed anew for `turn`."""
    return 0 if turn.num_retractions else turn.cached_tokens or 0


def _changed(difference: RowDifference, turn: Turn) -> str:
    row, layer, before, now = difference
    if layer is None:
        return f"row {row} has other experts than before, or another shape"
    at_hand = "how many of its tokens were computed again is not told"
    if turn.cached_tokens is not None:
        again = "computed again" if row >= cached_rows(turn) else "not computed again"
        at_hand = f"{again}: the backend had {turn.cached_tokens} tokens of {len(turn.prompt_ids)} at hand"
    return f"row {row}, layer {layer} names experts {now}, before {before}; the row was {at_hand}"
