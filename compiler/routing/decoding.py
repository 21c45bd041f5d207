"""The text of routed experts as whole numbers.

SGLang sends base64 of little-endian int32 without a header; a `routed_experts_dtype` beside it names another
type. vLLM sends base64 of a .npy file. Source: SGLang's state_capturer (0.5.7 to 0.5.23), vLLM 0.33.
"""

from io import BytesIO
from typing import Any

import numpy as np
import pybase64

from turnstile.addon.backends.row_placement import DTYPES, UndecodableRouting
from turnstile.compiler.routing.rows import Experts

_NPY = b"\x93NUMPY"


def decoded(text: Any, dtype: Any = None) -> Experts:
    """The numbers in `text`: flat, or [rows, layers, experts a token] where the text tells.

    Raises UndecodableRouting.
    """
    if not isinstance(text, str):
        raise UndecodableRouting(f"found a JSON {type(text).__name__}, expected base64 text")
    try:
        raw = pybase64.b64decode(text.encode("ascii"), validate=True)
    except ValueError as error:  # binascii.Error is one, and so is what `encode` raises
        raise UndecodableRouting("the text is no base64") from error
    return _from_npy(raw) if raw.startswith(_NPY) else _from_raw(raw, dtype or "int32")


def _from_raw(raw: bytes, dtype: Any) -> Experts:
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise UndecodableRouting(f"its type is {str(dtype)[:20]!r}, expected one of {', '.join(DTYPES)}")
    numbers = np.dtype(DTYPES[dtype])
    if len(raw) % numbers.itemsize:
        raise UndecodableRouting(f"{len(raw)} bytes are no whole number of {dtype}")
    return np.frombuffer(raw, numbers)


def _from_npy(raw: bytes) -> Experts:
    try:
        array = np.load(BytesIO(raw), allow_pickle=False)
    except Exception as error:  # its header is Python text, and a damaged one fails in any way
        raise UndecodableRouting("the .npy file in it cannot be read") from error
    if array.dtype.kind not in "iu" or array.ndim != 3:
        found = f"{array.dtype} in {array.ndim} axes"
        raise UndecodableRouting(f"the .npy file holds {found}, expected whole numbers in 3")
    return np.ascontiguousarray(array)
