"""A turn: the model's view of one choice of an exchange, checked, ids in and ids out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.addon.backends.wording import Wording
from turnstile.compiler.images.image import PromptImage

__all__ = ["Turn", "Wording"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """`prompt_ids` went in and `sampled_ids` came out, as the backend reported both."""

    exchange_id: str
    choice: int
    group_id: str
    rollout_id: str | None
    started_at: float  # Unix seconds
    log: str  # name of the file that holds the exchange
    offset: int
    prompt_ids: NDArray[np.int32]  # [P], P > 0
    sampled_ids: NDArray[np.int32]  # [O], O > 0, a stop token included
    logprobs: NDArray[np.float64]  # [O], natural log, finite and <= 0, or NaN where unknown
    finish_reason: str | None
    weight_spans: tuple[tuple[int, str], ...] = ()
    """(index into sampled_ids, version from there on), the first at 0; () when unknown."""
    version_read: str | None = None
    """What was read before and after it where the answer tells no version; None when unknown or told."""
    cached_tokens: int | None = None  # of the prompt, whose keys and values the backend had at hand
    num_retractions: int | None = None  # how often it was taken off the device and computed anew
    images: tuple[PromptImage, ...] = ()  # of the prompt, in order
    other_media: tuple[bytes, ...] = ()
    """Digests of what else stands behind its prompt's tokens (video, sound), in order; where is unknown."""
    sampling: Mapping[str, Any] = field(default_factory=dict)  # as sent
    flags: tuple[str, ...] = ()
    wording: Wording | None = None
