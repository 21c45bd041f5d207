"""The text of each token id, by the tokenizer that a user names."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.tokenizer import tokenizer_in


def texts_of(sequences: Sequence[TrainingSequence], folder: Path) -> dict[int, str]:
    r"""What every id in the sequences stands for, half a character as \xe2\x91.

    Ids that the tokenizer does not have are left out. Raises as `tokenizer_in` does.
    """
    tokenizer = tokenizer_in(folder)
    ids = np.unique(np.concatenate([each.tokens for each in sequences])) if sequences else np.empty(0, int)
    told = {token_id: tokenizer.bytes_of(token_id) for token_id in ids.tolist()}
    return {
        token_id: spelled.decode(errors="backslashreplace")
        for token_id, spelled in told.items()
        if spelled is not None
    }
