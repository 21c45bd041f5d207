"""What becomes of sampled ids that are made text and then ids again, as a trainer does that has only text.

split_differently  the text is encoded in other tokens than were sampled
mark_as_text       a mark such as <tool_call> was sampled letter by letter and becomes one token, or was one
                   token and does not come back
half_character     the sampled ids end or begin within a character, and no text holds them
unknown_id         the tokenizer has no such id: it is another model's

Some tokenizers put a space in front of every text, and take one off what they decode. So does this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from turnstile.compiler.tokenizer import Tokenizer

Kind = Literal["split_differently", "mark_as_text", "half_character", "unknown_id"]


@dataclass(frozen=True, slots=True)
class Retokenization:
    """How the ids of one answer differ once they have been text."""

    kind: Kind
    tokens: int  # sampled ids that do not come back in their place
    start: int  # index of the first of them
    sampled_ids: Sequence[int]  # that differ first
    encoded_ids: Sequence[int]  # that come back in their place


def retokenization(sampled_ids: Sequence[int], tokenizer: Tokenizer) -> Retokenization | None:
    """What differs; None when the very same ids come back."""
    pieces = [tokenizer.bytes_of(token_id) for token_id in sampled_ids]
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        at = pieces.index(None)
        return Retokenization("unknown_id", len(pieces) - len(known), at, [sampled_ids[at]], [])
    spelled = b"".join(known)
    text = spelled.decode(errors="replace")
    takes_off = tokenizer.has_space_in_front and text.startswith(" ")
    encoded_ids = tokenizer.ids_of(text[takes_off:])
    if encoded_ids == list(sampled_ids):
        return None
    if text.encode() != spelled:
        return _around_half_character(sampled_ids, encoded_ids)
    encoded = [tokenizer.bytes_of(each) or b"" for each in encoded_ids]
    if tokenizer.has_space_in_front and not takes_off and encoded:
        encoded[0] = encoded[0].removeprefix(b" ")  # which stands before the text
    kept = _kept(known, sampled_ids, encoded, encoded_ids)
    if all(kept):
        more = encoded_ids[: len(encoded_ids) - len(sampled_ids)]
        return Retokenization("split_differently", 0, 0, [], more)
    start, end = _first_run(kept)
    before, behind = sum(map(len, known[:start])), sum(map(len, known[end:]))
    now = _within(encoded_ids, encoded, before, len(spelled) - behind)
    is_mark = any(map(tokenizer.is_added, sampled_ids[start:end])) != any(map(tokenizer.is_added, now))
    kind: Kind = "mark_as_text" if is_mark else "split_differently"
    return Retokenization(kind, kept.count(False), start, list(sampled_ids[start:end]), now)


def _around_half_character(sampled_ids: Sequence[int], encoded_ids: Sequence[int]) -> Retokenization:
    """Between the ids that are the same at both ends."""
    size = min(len(sampled_ids), len(encoded_ids))
    same = np.array(sampled_ids[:size]) == np.array(encoded_ids[:size])
    start = size if same.all() else int(same.argmin())
    same = np.array(sampled_ids[len(sampled_ids) - size :]) == np.array(
        encoded_ids[len(encoded_ids) - size :]
    )
    tail = min(size - start, size if same.all() else int(same[::-1].argmin()))
    one, other = len(sampled_ids) - tail, len(encoded_ids) - tail
    return Retokenization(
        "half_character", one - start, start, list(sampled_ids[start:one]), list(encoded_ids[start:other])
    )


def _kept(
    pieces: Sequence[bytes], ids: Sequence[int], encoded_pieces: Sequence[bytes], encoded_ids: Sequence[int]
) -> list[bool]:
    """For each id whether the same one comes back for the same stretch of text."""
    back = set(zip(_edges(encoded_pieces), encoded_ids, strict=True))
    return [place in back for place in zip(_edges(pieces), ids, strict=True)]


def _edges(pieces: Sequence[bytes]) -> list[tuple[int, int]]:
    ends = np.cumsum([0, *map(len, pieces)]).tolist()
    return list(pairwise(ends))


def _first_run(kept: Sequence[bool]) -> tuple[int, int]:
    start = kept.index(False)
    end = next((at for at in range(start, len(kept)) if kept[at]), len(kept))
    return start, end


def _within(ids: Sequence[int], pieces: Sequence[bytes], start: int, end: int) -> list[int]:
    """The ids that spell the bytes [start, end) of their text."""
    edges = _edges(pieces)
    return [each for each, (begin, stop) in zip(ids, edges, strict=True) if begin < end and stop > start]
