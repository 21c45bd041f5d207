"""Tells whether OpenAI's logprobs in a reply are the engine's, without parsing them.

A reply has each logprob twice: as a number in the engine's rows, and inside OpenAI's objects, which take
three times as long to parse. The text of a number can be compared where it stands.
"""

from collections.abc import Sequence
from typing import Any

import orjson

_KEY, _REST_OF_ROW = b'"logprob":', b',"top_logprobs":[]}'


def says_logprobs(block: bytes, logprobs: Sequence[Any]) -> bool:
    """Whether `block`, the JSON of a choice's `logprobs`, has exactly these, one a row, in order.

    False where that cannot be told from the text: another layout, top logprobs, numbers spelled otherwise
    (pydantic, by which SGLang writes, and orjson agree; the standard library has other exponents).
    """
    rows = block.split(_KEY)[1:]
    if not logprobs or len(rows) != len(logprobs) or block.count(b'{"token":') != len(rows):
        return False
    try:
        texts = orjson.dumps(logprobs)[1:-1].split(b",")
    except TypeError:
        return False
    return len(texts) == len(rows) and all(
        map(bytes.startswith, rows, [text + _REST_OF_ROW for text in texts])
    )
