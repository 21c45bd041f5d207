"""Ids as text to look at: half characters and control characters as escapes, nothing left out."""

from collections.abc import Sequence

from turnstile.compiler.explain.token_texts import TokenTexts

UNKNOWN = "\ufffd"


def spelled(ids: Sequence[int], texts: TokenTexts) -> list[str]:
    r"""Each id's text: half a character as \xe2\x91, a line's end as \n, an id without a text as U+FFFD."""
    return [UNKNOWN if (told := texts.bytes_of(each)) is None else _visible(told) for each in ids]


def _visible(told: bytes) -> str:
    text = told.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
