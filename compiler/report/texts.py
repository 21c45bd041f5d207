"""The text of each token id, by the tokenizer that a user names."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnstile.compiler.errors import TokenizerNotInstalled, TokenizerUnreadable
from turnstile.compiler.sequence import TrainingSequence

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NAME = "tokenizer.json"
_REPLACEMENT = "\ufffd"


def texts_of(sequences: Sequence[TrainingSequence], folder: Path) -> dict[int, str]:
    """What every id in the sequences stands for; ids that the tokenizer does not have are left out.

    Raises TokenizerNotInstalled without the package, TokenizerUnreadable for a folder without a
    tokenizer.json that can be read.
    """
    tokenizer = _tokenizer_in(folder)
    ids = np.unique(np.concatenate([each.tokens for each in sequences])) if sequences else np.empty(0, int)
    texts = _texts(ids.tolist(), tokenizer)
    return {token: text for token, text in texts.items() if text is not None}


def _texts(ids: Collection[int], tokenizer: "Tokenizer") -> dict[int, str | None]:
    return {token: _text(token, tokenizer) for token in ids}


def _text(token: int, tokenizer: "Tokenizer") -> str | None:
    """The token alone: decoders take a space off the first word, and part of a character has no text."""
    spelled: str | None = tokenizer.id_to_token(token)
    if spelled is None:
        return None
    text: str = tokenizer.decode([token], skip_special_tokens=False)
    if spelled.startswith("▁"):
        return spelled.replace("▁", " ")
    return spelled if not text or _REPLACEMENT in text else text


def _tokenizer_in(folder: Path) -> "Tokenizer":
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise TokenizerNotInstalled(
            "text beside token ids needs tokenizers: pip install 'turnstile-rl[tokenizer]'"
        ) from error
    path = folder / _NAME
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TokenizerUnreadable(
            f"{folder} holds no {_NAME} that can be read ({error.strerror}); name a tokenizer's folder"
        ) from error
    except Exception as error:  # tokenizers raises nothing narrower
        raise TokenizerUnreadable(f"{path} is no tokenizer: {error}") from error
