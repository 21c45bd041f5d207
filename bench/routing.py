"""Made-up routed experts: where a mixture of experts sends each token, as SGLang says it.

Every token goes to other experts in every layer, all of them equally often: nothing of it can be guessed from
the rest, so that a log of real routing is no larger.
"""

import base64
import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

ROWS = 5_000  # that a session has at the most


@dataclass(frozen=True, slots=True)
class Experts:
    """The shape of a mixture of experts."""

    layers: int
    top_k: int  # experts that a token is sent to in each layer
    experts: int  # of a layer

    @property
    def a_token(self) -> int:
        """Experts that a token is sent to over all layers."""
        return self.layers * self.top_k

    @property
    def row_chars(self) -> int:
        """Of a token in base64; its int32 are a multiple of three bytes, so that rows can be cut."""
        return self.a_token * 4 // 3 * 4


@dataclass(frozen=True, slots=True)
class Routing:
    """What a reply says of its tokens: all of the session so far but the last."""

    shape: Experts
    session: str
    rows: int

    def text(self, start_row: int = 0) -> memoryview:
        """Base64 of int32 [rows, layers, top_k] from a row on."""
        session = _session_text(self.shape, self.session)
        return memoryview(session)[start_row * self.shape.row_chars : self.rows * self.shape.row_chars]


@cache
def _session_text(shape: Experts, session: str) -> bytes:
    rng = np.random.default_rng(zlib.crc32(session.encode()))
    chosen = rng.integers(shape.experts, size=(ROWS * shape.layers, shape.top_k), dtype="<i4")
    while len(again := np.flatnonzero(_names_one_twice(chosen))):
        chosen[again] = rng.integers(shape.experts, size=(len(again), shape.top_k))
    return base64.b64encode(chosen.tobytes())


def _names_one_twice(chosen: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (np.diff(np.sort(chosen)) == 0).any(axis=1)
    return found
