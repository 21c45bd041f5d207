"""Prompt ids from the digits in a reply, parsed once however often they are resent.

Every turn of an agent loop repeats the prompt of the turn before, so most of a prompt's digits have
been read already. `PromptTexts` remembers the latest prompts of a group and parses only what follows
the longest beginning that a new one shares with one of them. A beginning is shared up to a comma: the
bytes before it spell the same numbers in both. Arrays that extend each other lie in one buffer, so that
the turns of a rollout take the memory of the longest.
"""

import json
from array import array
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from turnstile.compiler.beginnings import Beginnings, Kept
from turnstile.compiler.token_ids import TokenIdsError, ids_from_list


@dataclass(slots=True)
class _Buffer:
    """Room for ids that grow at the end; `used` of them are taken."""

    ids_T: NDArray[np.int32]
    used: int


@dataclass(frozen=True, slots=True)
class _Ids:
    buffer: _Buffer
    count: int  # the first ones of the buffer

    def view(self) -> NDArray[np.int32]:
        view = self.buffer.ids_T[: self.count]
        view.flags.writeable = False
        return view


class PromptTexts:
    """The latest prompts of one group; the arrays that it gives out must not be written to."""

    def __init__(self) -> None:
        self._kept = Beginnings[_Ids]()

    def ids(self, text: bytes) -> NDArray[np.int32]:
        """The ids in `text`, the inside of a JSON array of integers (no brackets).

        Raises TokenIdsError when it is none, or an id has more than 31 bits.
        """
        whole = self._kept.whole_in(text, followed_by=(b",", b""))
        if whole is not None:
            ids = _with_more(whole, text)
        elif (part := self._kept.most_alike(text)) is not None:
            ids = _branched(part, text)
        else:
            ids = _of_array(_plain_ids(text))
        if ids.count:
            self._kept.keep(Kept(text, ids), instead_of=whole)
        return ids.view()


def _with_more(whole: Kept[_Ids], text: bytes) -> _Ids:
    """The ids of `text`, which is that of `whole`, or goes on after it with a comma."""
    if len(text) == len(whole.text):
        return whole.value
    more = text[len(whole.text) + 1 :]
    return _appended(whole.value.buffer, whole.value.count, _plain_ids(more, following=True))


def _branched(part: Kept[_Ids], text: bytes) -> _Ids:
    """The ids of `text`, which has a beginning in common with `part`."""
    comma = text.rfind(b",", 0, _shared_bytes(part.text, text))
    count = _commas(text[: comma + 1])
    return _appended(part.value.buffer, count, _plain_ids(text[comma + 1 :], following=count > 0))


def _appended(buffer: _Buffer, count: int, more: NDArray[np.int32]) -> _Ids:
    """The first `count` ids of the buffer and `more`: in place where they end it, else in a new one."""
    total = count + len(more)
    if count != buffer.used or total > len(buffer.ids_T):
        room = np.empty(total + total // 2, np.int32)
        room[:count] = buffer.ids_T[:count]
        buffer = _Buffer(room, count)
    buffer.ids_T[count:total] = more
    buffer.used = total
    return _Ids(buffer, total)


def _of_array(ids_T: NDArray[np.int32]) -> _Ids:
    return _Ids(_Buffer(ids_T, len(ids_T)), len(ids_T))


def _shared_bytes(left: bytes, right: bytes) -> int:
    size = min(len(left), len(right))
    differs = np.frombuffer(left, np.uint8, size) != np.frombuffer(right, np.uint8, size)
    first = int(differs.argmax()) if size else 0
    return first if size and differs[first] else size


def _commas(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(","))) if text else 0


def _plain_ids(text: bytes, following: bool = False) -> NDArray[np.int32]:
    """The ids in `text`; after a comma (`following`) there must be one."""
    array_text = b"[%b]" % text
    try:
        values = orjson.loads(array_text)
        if following and not values:
            raise TokenIdsError("token_type", "the prompt ids end with a comma, expected an id")
        return np.frombuffer(array("i", values), np.int32)
    except orjson.JSONDecodeError as error:
        raise TokenIdsError("token_type", "the prompt ids are no JSON array of integers") from error
    except (TypeError, OverflowError):
        return ids_from_list(json.loads(array_text))  # which says what is wrong; orjson makes floats of 2**64
