"""A model's tokenizer, read from the tokenizer.json in a folder: the bytes of an id, and the ids of a text.

The `tokenizers` package reads it and is imported only here. A single id may stand for half a character, so
ids become bytes and never text by themselves. How an entry spells its bytes depends on the decoder:

ByteLevel     (GPT-2, Qwen, Llama 3) every byte is written as a printable character
Metaspace or  (SentencePiece, Llama 2) U+2581 is a space, <0x0A> is one byte
ByteFallback
"""

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnstile.compiler.errors import NotInstalled, UnusableFolder

if TYPE_CHECKING:
    import tokenizers

_FILE = "tokenizer.json"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """The tokenizer of one folder. Use `tokenizer_in`."""

    def __init__(self, library: "tokenizers.Tokenizer", decoders: Iterable[str]) -> None:
        self._library = library
        self._is_byte_level = "ByteLevel" in decoders
        self._added = {
            token_id: token.content for token_id, token in library.get_added_tokens_decoder().items()
        }
        self._bytes: dict[int, bytes | None] = {}
        self.has_space_in_front = self._takes_off_space()
        """Whether a space is put in front of a text that is encoded, and taken off one that is decoded."""

    def bytes_of(self, token_id: int) -> bytes | None:
        """What one id stands for; None when the vocabulary has no such id."""
        if token_id not in self._bytes:
            self._bytes[token_id] = self._spelled(token_id)
        return self._bytes[token_id]

    def is_added(self, token_id: int) -> bool:
        """Whether it stands for a whole mark, as <|im_end|> and <tool_call> do, and not for ordinary text."""
        return token_id in self._added

    def ids_of(self, text: str) -> list[int]:
        """The ids of a text; marks that are written out in it become their ids."""
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def _takes_off_space(self) -> bool:
        ids = self.ids_of("a")
        spelled = b"".join(self.bytes_of(each) or b"" for each in ids).decode(errors="replace")
        return spelled[:1] == " " and self._library.decode(ids, skip_special_tokens=False) == spelled[1:]

    def _spelled(self, token_id: int) -> bytes | None:
        if token_id in self._added:
            return self._added[token_id].encode()
        piece = self._library.id_to_token(token_id)
        if piece is None:
            return None
        if self._is_byte_level:
            told = [_BYTES_BY_CHARACTER.get(character) for character in piece]
            known = [byte for byte in told if byte is not None]
            # an entry with any other character is spelled as it stands there
            return bytes(known) if len(known) == len(told) else piece.encode()
        if found := _BYTE.fullmatch(piece):
            return bytes([int(found[1], 16)])
        return piece.replace("\u2581", " ").encode()


def tokenizer_in(folder: str | PathLike[str]) -> Tokenizer:
    """The tokenizer in `folder`.

    Raises NotInstalled without the `tokenizers` package, UnusableFolder where the folder holds
    no tokenizer.json that it can read.
    """
    path = Path(folder) / _FILE
    if not path.is_file():
        raise UnusableFolder(f"{Path(folder)} holds no {_FILE}; name the folder of a model or its tokenizer")
    try:
        from tokenizers import Tokenizer as Library
    except ModuleNotFoundError as error:
        raise NotInstalled("a tokenizer needs the tokenizers package", "tokenizer") from error
    try:
        library = Library.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise UnusableFolder(f"{path} cannot be read as a tokenizer: {error}") from error
    return Tokenizer(library, _decoders(library))


def _decoders(library: "tokenizers.Tokenizer") -> set[str]:
    """The types of the decoders, those inside a sequence too."""
    import json

    decoder: Mapping[str, Any] = json.loads(library.to_str())["decoder"] or {}
    return {decoder.get("type", ""), *(inner["type"] for inner in decoder.get("decoders", ()))}


def _printable_bytes() -> dict[str, int]:
    """The character that stands for each byte: itself where it is printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(0x100 + at): byte for at, byte in enumerate(others)}


_BYTES_BY_CHARACTER = _printable_bytes()
