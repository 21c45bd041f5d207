"""A training sequence: what the trainer gets, one path of tokens with what is known of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.images.image import ProcessedImage, PromptImage
from turnstile.compiler.routing.rows import Experts

Cause = Literal[
    "history_rewritten",
    "retokenized",
    "routing_changed",
    "image_changed",
    "sibling",
    "aborted",
    "new_prompt",
]
"""Why a sequence did not go on an earlier one; `turnstile.compiler.causes` states the rules."""


@dataclass(frozen=True, slots=True)
class Call:
    """One choice of an exchange."""

    exchange_id: str
    choice: int


@dataclass(frozen=True, slots=True)
class Parent:
    """The earlier sequence that this one left."""

    sequence_id: str
    shared_tokens: int  # length of the longest common beginning of the two
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingSequence:
    """Tokens in the order in which the model saw and sampled them."""

    sequence_id: str  # the same log gives the same ids
    group_id: str
    rollout_id: str | None
    tokens: NDArray[np.int32]  # [T]
    logprobs: NDArray[np.float64]  # [T], natural log, as sampled; 0.0 where `loss_mask` is false
    segment_info: tuple[tuple[bool, int], ...]
    """(sampled and trainable, length), lengths sum to T. What different turns sampled stays apart."""
    weight_versions: tuple[tuple[int, str], ...]
    """(index, version from there on), strictly rising; binding for sampled tokens; "" is unknown."""
    routed_experts: Experts | None = None
    """[T - 1, layers, experts a token], row i is token i's; None unless every row is known."""
    images: tuple[PromptImage, ...] = ()  # in the order of their tokens
    processed_images: tuple[ProcessedImage, ...] = ()  # of each distinct image; of all or of none
    exchanges: tuple[Call, ...]  # one a turn, in order
    parent: Parent | None = None
    finish_reasons: tuple[str, ...]  # one a turn; "" is unknown
    sampling: tuple[Mapping[str, Any], ...]  # one a turn: temperature, top_p, ... as sent
    flags: tuple[str, ...] = ()  # sorted
    reward: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def routed_experts_shape(self) -> tuple[int, ...] | None:
        """(rows, layers, experts a token)."""
        return None if self.routed_experts is None else self.routed_experts.shape

    @property
    def loss_mask(self) -> NDArray[np.bool_]:
        """[T], true where the token was sampled and is trainable."""
        trainable = [is_trainable for is_trainable, _ in self.segment_info]
        return np.repeat(np.array(trainable, np.bool_), [length for _, length in self.segment_info])
