"""Token ids as int32 arrays: only what a backend can mean by a token id gets through.

A value that is no integer is refused, never converted: `20001.0`, `"20001"` and `true` are signs of
something between the engine and us that rewrites numbers.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT32_LIMIT = 2**31


class TokenIdsError(ValueError):
    """A list of token ids is none; `kind` is the finding it makes."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def ids_from_list(values: Sequence[Any]) -> NDArray[np.int32]:
    """The ids as an array. Raises TokenIdsError for the first value that is no integer of 31 bits."""
    if set(map(type, values)) <= {int}:
        try:
            return np.frombuffer(array("i", values), np.int32)
        except OverflowError:
            pass
    for index, value in enumerate(values):
        if type(value) is not int:
            raise TokenIdsError(
                "token_type", f"id {index} of {len(values)} is {_spelled(value)}, expected an integer"
            )
        check_range(value, index, INT32_LIMIT)
    raise AssertionError("array() refused what the checks accept")


def check_ids(ids_T: NDArray[np.int32], limit: int) -> None:
    """Raises TokenIdsError for the first id outside 0..limit-1."""
    if ids_T.size and ids_T.view(np.uint32).max() >= limit:  # negative ones are the highest then
        index = int(np.flatnonzero((ids_T < 0) | (ids_T >= limit))[0])
        check_range(int(ids_T[index]), index, limit)


def check_range(value: int, index: int, limit: int) -> None:
    """Raises TokenIdsError unless 0 <= value < limit."""
    if not 0 <= value < limit:
        raise TokenIdsError("token_out_of_range", f"id {index} is {value}, expected 0 to {limit - 1}")


def _spelled(value: Any) -> str:
    """A number as it is; of anything else only what it is, for it may be a piece of text."""
    return f"the number {value!r}" if isinstance(value, float) else f"a {type(value).__name__}"
