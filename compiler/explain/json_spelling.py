"""Whether two texts hold the same JSON written otherwise, where they first differ."""

import json
import re
from itertools import islice

_TRIES = 32  # objects that may begin before the difference: the outer ones come first
_decode = json.JSONDecoder().raw_decode


def spelled_otherwise(one: bytes, other: bytes) -> bool:
    """Whether the first difference lies in JSON objects that mean the same."""
    left, right = one.decode(errors="replace"), other.decode(errors="replace")
    shared = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if shared is None:
        return False
    for at in islice((found.start() for found in re.finditer("{", left[: shared + 1])), _TRIES):
        try:
            (meant, end), (meant_too, _) = _decode(left, at), _decode(right, at)
            if meant == meant_too and end > shared:
                return True
        except (ValueError, RecursionError):
            pass
    return False
