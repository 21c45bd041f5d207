"""Tells whether OpenAI's logprobs in a reply are the engine's, without parsing them.

A reply has each logprob twice: as a number in the engine's rows, and inside OpenAI's objects, which take
three times as long to parse. The text of a number can be compared where it stands.
"""

import re
from collections.abc import Sequence
from typing import Any

import orjson

_LOGPROB = re.compile(rb'"logprob":([^,]+),"top_logprobs":\[\]}')


def says_logprobs(block: bytes, logprobs: Sequence[Any]) -> bool:
    """Whether `block`, the JSON of a choice's `logprobs`, has exactly these, one a row, in order.

    False where that cannot be told from the text: another layout, top logprobs, numbers spelled otherwise
    (pydantic, by which SGLang writes, and orjson agree; the standard library has other exponents).
    """
    texts = _LOGPROB.findall(block)
    if not logprobs or len(texts) != len(logprobs) or block.count(b'{"token":') != len(texts):
        return False
    try:
        return orjson.dumps(logprobs) == b"[%b]" % b",".join(texts)
    except TypeError:
        return False
