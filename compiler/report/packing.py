"""Arrays as text that a page can hold: little-endian, zlib, base64. `assets/decode.js` is the inverse."""

import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.token_tree import equal_front

_LEVEL = 6


def packed(array: NDArray[Any], dtype: str) -> str:
    """The array's values as `dtype`, in C order."""
    return b64encode(zlib.compress(array.astype(dtype, copy=False).tobytes(), _LEVEL)).decode()


def own_tokens_from(sequence: TrainingSequence, parent: TrainingSequence | None) -> int:
    """From which index on a sequence's tokens are stored; those before are its parent's.

    What the file says they share is believed only where it is so.
    """
    if parent is None or sequence.parent is None:
        return 0
    shared = sequence.parent.shared_tokens
    return shared if equal_front(parent.tokens, sequence.tokens) >= shared else 0


def packed_tokens(sequence: TrainingSequence, own_from: int) -> str:
    """The ids from `own_from` on, as int32."""
    return packed(sequence.tokens[own_from:], "<i4")


def packed_logprobs(sequence: TrainingSequence) -> str:
    """The logprobs of the trained tokens, as float32, which is what servers compute them in."""
    trained = sequence.logprobs[sequence.loss_mask[: len(sequence.logprobs)]]
    return packed(np.asarray(trained), "<f4")
