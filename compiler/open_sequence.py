"""A path of tokens that turns may still extend, and why one of them may not."""

from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.images.agreement import agreed_size, images_agree
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.routing.changes import Mask
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
    latest: int = 0  # number of its last turn among all turns of the group
    parent: "OpenSequence | None" = None
    """The earlier sequence that shares the longest beginning, of the same rollout if one shares any."""
    parent_turn: Turn | None = None  # the turn of the parent in which, or behind which, they part
    shared_tokens: int = 0  # length of the common beginning, images included
    refusal: Refusal | None = None  # of the longest sequence that its first turn would have extended
    other_images: Turn | None = None
    """The turn of its parent whose sampled tokens it would share, but for the images before them."""

    def add(
        self, turn: Turn, tokens_T: Tokens, rows: RoutedRows | None = None, changed: Mask | None = None
    ) -> None:
        """Takes in a turn that extends it; `tokens_T` are its prompt and sampled ids, `rows` its routing.

        `changed` are those of the first rows that other turns made other ones since its last turn.
        """
        # All but the last token went through the model before; what is not at hand does so once more.
        computed = max(0, len(self.tokens_T) - 1)
        changed = np.empty(0, np.bool_) if changed is None else changed
        self.routing.compute_again(cached_rows(turn), computed, changed, is_told=rows is not None)
        if rows is not None:
            self.routing.add(rows)
        self.turns.append(turn)
        self.rollout_ids.add(turn.rollout_id)
        self.starts.append(len(self.tokens_T))
        self.tokens_T = tokens_T

    @property
    def other_media(self) -> tuple[bytes, ...]:
        """What else stands behind its tokens; see Turn."""
        return self.turns[-1].other_media if self.turns else ()

    @property
    def images(self) -> tuple[PromptImage, ...]:
        """The images of its prompts; the last one has those of all."""
        return self.turns[-1].images if self.turns else ()

    def leave(self, parent: "OpenSequence", shared_tokens: int, turn: Turn, refusal: Refusal | None) -> None:
        """Notes the earlier sequence that this new one, which begins with `turn`, left.

        They have `shared_tokens` in common; what counts is how many of these have the same images too.
        """
        self.refusal = refusal
        agreed = agreed_size(parent.images, turn.images, shared_tokens)
        if not parent.shares_media(turn, shared_tokens):
            agreed = 0  # which of the tokens they stand behind is unknown
        resent = min(shared_tokens, len(turn.prompt_ids))
        if agreed < resent and len(parent.turns[0].prompt_ids) < resent:
            self.other_images = parent.turn_at(resent - 1)
        if agreed:
            self.parent, self.shared_tokens = parent, agreed
            self.parent_turn = parent.turn_at(agreed)

    def turn_at(self, index: int) -> Turn:
        """The turn that added token `index`, the last one for an index past the end."""
        added = zip(reversed(self.turns), reversed(self.starts), strict=True)
        return next(turn for turn, start in added if start <= index)

    def shares_media(self, turn: Turn, shared_tokens: int) -> bool:
        """Whether what else than text and images stands behind the common beginning can be the same."""
        mine, others = self.other_media, turn.other_media
        whole = shared_tokens == len(self.tokens_T)  # then all of mine stand behind it
        size = len(mine) if whole else min(len(mine), len(others))
        return mine[:size] == others[:size]

    def refuses(self, turn: Turn, rows: RoutedRows | None) -> Refusal | None:
        """Why `turn`, whose prompt begins with all tokens of this, does not go on it; None when it does."""
        if not images_agree(self.images, turn.images, len(self.tokens_T)):
            return Refusal(self, "image_changed", _other_image(self, turn))
        if not self.shares_media(turn, len(self.tokens_T)):
            message = "other video, sound or files stand behind the same tokens"
            return Refusal(self, "image_changed", message)
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


def _other_image(sequence: OpenSequence, turn: Turn) -> str:
    pairs = enumerate(zip_longest(sequence.images, turn.images), 1)
    number, before, now = next((at, mine, others) for at, (mine, others) in pairs if mine != others)
    shown = [f"the file {image.sha256[:12]}..." if image else "nothing" for image in (now, before)]
    return f"image {number} is {shown[0]}, before {shown[1]}, behind the same tokens"


def _changed(difference: RowDifference, turn: Turn) -> str:
    row, layer, before, now = difference
    if layer is None:
        return f"row {row} is not the same as before, and the shape of the rows is unknown or another one"
    again = "whether the row was computed again is not told"
    if turn.cached_tokens is not None:
        was = "was" if row >= cached_rows(turn) else "was not"
        at_hand = f"the backend had {turn.cached_tokens} tokens of {len(turn.prompt_ids)} at hand"
        again = f"the row {was} computed again: {at_hand}"
    return f"row {row}, layer {layer} names experts {now}, before {before}; {again}"
