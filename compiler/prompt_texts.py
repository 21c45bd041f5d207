"""Prompt ids from the digits in a reply, parsed once however often they are resent.

Every turn of an agent loop repeats the prompt of the turn before, so most of a prompt's digits have
been read already. `PromptTexts` remembers the latest prompts of a group and parses only what follows
the longest beginning that a new one shares with one of them. A beginning is shared up to a comma: the
bytes before it spell the same numbers in both. Arrays that extend each other lie in one buffer, so that
the turns of a rollout take the memory of the longest.
"""

from array import array as array_of_ints
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from turnstile.addon.backends.exact_json import loads
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

    def ids(self, array: bytes) -> NDArray[np.int32]:
        """The ids in the JSON `array`.

        Raises TokenIdsError when it is no JSON or none of integers, or an id has more than 31 bits.
        """
        whole = self._kept.whole_in(array, followed_by=(b",", b"]"))
        try:
            if whole is not None:
                ids = _with_more(whole, array)
            elif (part := self._kept.most_alike(array)) is not None:
                ids = _branched(part, array)
            else:
                ids = _of_array(_some_ids(array))
        except ValueError:
            return _checked_ids(array)
        self._kept.keep(Kept(array, len(array) - 1, ids), instead_of=whole)  # without the bracket at its end
        return ids.view()


def _with_more(whole: Kept[_Ids], array: bytes) -> _Ids:
    """The ids of `array`, which is that of `whole`, or goes on after it with a comma."""
    end = whole.size
    if len(array) == end + 1:
        return whole.value
    return _appended(whole.value.buffer, whole.value.count, _some_ids(b"[" + array[end + 1 :]))


def _branched(part: Kept[_Ids], array: bytes) -> _Ids:
    """The ids of `array`, which has a beginning in common with `part`."""
    comma = array.rfind(b",", 0, _shared_bytes(part.text, array))
    start = max(comma, 0)  # where they share no id the bracket
    return _appended(part.value.buffer, _commas(array[: start + 1]), _some_ids(b"[" + array[start + 1 :]))


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


def _shared_bytes(left: memoryview, right: bytes) -> int:
    size = min(len(left), len(right))
    differs = np.frombuffer(left, np.uint8, size) != np.frombuffer(right, np.uint8, size)
    first = int(differs.argmax()) if size else 0
    return first if size and differs[first] else size


def _commas(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(","))) if text else 0


def _some_ids(array: bytes) -> NDArray[np.int32]:
    """The ids in `array`. Raises ValueError where it is none of ids, or holds none."""
    if b"e" in array:  # of true and false, which array() takes for 1 and 0
        raise ValueError("not only integers")
    try:
        values = array_of_ints("I", orjson.loads(array))  # signed ones take twice as long to fill
    except (TypeError, OverflowError) as error:
        raise ValueError("not only ids") from error
    ids_T = np.frombuffer(values, np.int32)
    if not len(ids_T) or ids_T.min() < 0:
        raise ValueError("no ids, or one beyond 31 bits")
    return ids_T


def _checked_ids(array: bytes) -> NDArray[np.int32]:
    """The ids in `array`, or what is wrong with it."""
    try:
        values = loads(array).value
    except ValueError as error:
        raise TokenIdsError("undecodable", "they are no JSON") from error
    return ids_from_list(values)
