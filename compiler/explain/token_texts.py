"""The bytes that ids stand for, and whether two paths of ids spell the same text.

A tokenizer knows them all. Without one, a log's answers still tell the bytes of every token that was sampled
with logprobs. A backend that decodes each token by itself may lose the space before a word, so these count
only once a space was seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson

from turnstile.addon.tracelog.records import Exchange

_ALIKE = 2  # ids in a row that must be equal for two paths to go on alike
_REPLACEMENT = "\ufffd".encode()  # what a backend writes for half a character


class TokenTexts(Protocol):
    """Where the bytes of ids come from."""

    def bytes_of(self, token_id: int) -> bytes | None:
        """What an id stands for; None where that is not known."""


class LearnedTexts:
    """What the answers of some exchanges tell of the tokens in them."""

    def __init__(self) -> None:
        self._bytes: dict[int, bytes | None] = {}
        self.keeps_spaces = False
        """Whether a space before a word was seen: else a backend may lose them all."""

    def bytes_of(self, token_id: int) -> bytes | None:
        """What an id stands for; None where that is not known."""
        return self._bytes.get(token_id) if self.keeps_spaces else None

    @property
    def known(self) -> dict[int, bytes]:
        """Every id that is told the same by all answers; the space before a word may be missing."""
        return {token_id: text for token_id, text in self._bytes.items() if text is not None}

    def learn(self, exchange: Exchange, choice: int, sampled_ids: Sequence[int]) -> None:
        """Takes in the tokens of one choice of an exchange, which sampled these ids."""
        rows = _rows(exchange, choice)
        if len(rows) != len(sampled_ids):
            return
        for token_id, row in zip(sampled_ids, rows, strict=True):
            text = _bytes_in(row)
            if text is None or self._bytes.setdefault(token_id, text) != text:
                self._bytes[token_id] = None
            else:
                self.keeps_spaces = self.keeps_spaces or text.startswith(b" ")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How two paths of ids spell what follows the place where they part."""

    text: Literal["same", "other", "unknown"]
    earlier_end: int  # with the same text: where both paths first have spelled as much again
    later_end: int


def spelling(earlier: Sequence[int], later: Sequence[int], start: int, texts: TokenTexts) -> Spelling:
    """Whether the ids from `start` on spell the same text up to where both paths go on with the same ids.

    An earlier path that ends before that counts as the same where its text is the beginning of the later's.
    """
    at, ahead, leading = [start, start], b"", 1  # ahead: what the leading path has spelled more
    paths = (earlier, later)
    while ahead or min(at) == start or not _go_on_alike(paths, at):
        behind = 1 - leading
        if at[behind] == len(paths[behind]):
            text: Literal["same", "other"] = "same" if behind == 0 and at[1] > start else "other"
            return Spelling(text, at[0], at[1])
        told = texts.bytes_of(paths[behind][at[behind]])
        if told is None:
            return Spelling("unknown", at[0], at[1])
        at[behind] += 1
        size = min(len(told), len(ahead))
        if told[:size] != ahead[:size]:
            return Spelling("other", at[0], at[1])
        if len(told) > len(ahead):
            leading = behind
        ahead = told[size:] or ahead[size:]
    return Spelling("same", at[0], at[1])


def _go_on_alike(paths: tuple[Sequence[int], Sequence[int]], at: Sequence[int]) -> bool:
    """Whether the next ids are equal: a text that was changed right here can be split otherwise before it."""
    (earlier, later), (one, other) = paths, at
    return list(earlier[one : one + _ALIKE]) == list(later[other : other + _ALIKE])[: len(earlier) - one]


def text_of(ids: Sequence[int], texts: TokenTexts) -> bytes:
    """The bytes of the ids, up to the first that is not known."""
    parts = []
    for token_id in ids:
        if (told := texts.bytes_of(token_id)) is None:
            break
        parts.append(told)
    return b"".join(parts)


def _bytes_in(row: Any) -> bytes | None:
    told = row.get("bytes") if isinstance(row, dict) else None
    try:
        text = bytes(told) if isinstance(told, list) else b""
    except (TypeError, ValueError):
        return None
    return text if text and _REPLACEMENT not in text else None


def _rows(exchange: Exchange, choice: int) -> list[Any]:
    """The rows of logprobs of a choice, an item a token; of a stream those of all its events."""
    rows = list[Any]()
    for part in _objects(exchange):
        choices = part.get("choices")
        for each in choices if isinstance(choices, list) else ():
            if isinstance(each, dict) and each.get("index", 0) == choice:
                logprobs = each.get("logprobs")
                content = logprobs.get("content") if isinstance(logprobs, dict) else None
                rows += content if isinstance(content, list) else []
    return rows


def _objects(exchange: Exchange) -> Iterator[dict[str, Any]]:
    try:
        content = exchange.reply_content()
    except ValueError:
        return
    is_one = content.lstrip().startswith(b"{")
    for line in [content] if is_one else content.splitlines():
        try:
            value = orjson.loads(line if is_one else line.removeprefix(b"data:"))
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict):
            yield value
