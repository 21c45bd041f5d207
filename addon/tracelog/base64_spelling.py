"""The ways in which a JSON string spells bytes in base64, so that each can be stored as the bytes.

Serialisers escape slashes, encoders break lines (after every 76 characters), leave the padding off, or use
the alphabet for URLs. What is spelled in one of these ways throughout comes out again as it was.
"""

import binascii
from dataclasses import dataclass
from typing import Any, Self

import pybase64

_BREAKS = (rb"\r\n", rb"\n")
_SHORTEST_LINE = 16  # characters; a shorter one would make much of few bytes


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way; the usual one is standard base64 with padding."""

    padded: bool = True
    for_urls: bool = False  # - and _ for + and /
    escaped: bool = False  # a backslash before each slash
    line: int = 0  # characters before each line break; 0: there is none
    line_break: bytes = b""

    def spell(self, raw: bytes) -> bytes:
        """The text of `raw`."""
        text = pybase64.urlsafe_b64encode(raw) if self.for_urls else pybase64.b64encode(raw)
        text = text if self.padded else text.rstrip(b"=")
        if self.line:
            text = self.line_break.join(text[at : at + self.line] for at in range(0, len(text), self.line))
        return text.replace(b"/", rb"\/") if self.escaped else text

    def fields(self) -> list[Any]:
        """As it stands on disk."""
        return [self.padded, self.for_urls, self.escaped, self.line, self.line_break]

    @classmethod
    def from_fields(cls, fields: list[Any]) -> Self:
        """The inverse of `fields`. Raises ValueError for what could spell few bytes at any length."""
        spelling = cls(*fields)
        if spelling.line and (spelling.line < _SHORTEST_LINE or spelling.line_break not in _BREAKS):
            raise ValueError(f"lines of {spelling.line} characters are no spelling")
        return spelling


def read_spelling(text: bytes) -> tuple[bytes, Spelling] | None:
    """(the bytes, how they are spelled) when the spelling gives `text` back; else None."""
    plain = text.replace(rb"\/", b"/")
    line, line_break = max(plain.find(b"\\"), 0), b""
    if line:
        line_break = next((each for each in _BREAKS if plain.startswith(each, line)), b"")
        if not line_break or line < _SHORTEST_LINE:
            return None
        plain = plain.replace(line_break, b"")
    for_urls = b"-" in plain or b"_" in plain
    raw = _decoded(plain.translate(bytes.maketrans(b"-_", b"+/")) if for_urls else plain)
    padded = plain.endswith(b"=") or len(plain) % 4 == 0
    spelling = Spelling(padded, for_urls, rb"\/" in text, line, line_break)
    return (raw, spelling) if raw is not None and spelling.spell(raw) == text else None


def _decoded(plain: bytes) -> bytes | None:
    try:
        return pybase64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
