"""A small byte-level tokenizer in a folder: every byte, some words, some control tokens."""

from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from turnstile.compiler.tokenizer import Tokenizer, tokenizer_in

WORDS = ("hello", "Ġworld", "thought", "count")
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
MARKS = ("<think>", "</think>")


def write_tokenizer(folder: Path) -> Path:
    """Writes it and gives the folder."""
    vocabulary = {piece: at for at, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = list[tuple[str, str]]()
    for word in WORDS:
        for end in range(1, len(word)):
            merges.append((word[:end], word[end]))
            vocabulary.setdefault(word[: end + 1], len(vocabulary))
    library = Library(models.BPE(vocab=vocabulary, merges=merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    library.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    return folder


def tokenizer(folder: Path) -> Tokenizer:
    """The same, read."""
    return tokenizer_in(write_tokenizer(folder))
