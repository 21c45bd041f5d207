"""An image as it was sent, before and after it is known which tokens stand for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Image:
    """The original file. Two images are the same when their bytes are."""

    sha256: str  # of the bytes, hexadecimal
    mime: str  # told by the bytes; application/octet-stream where they tell none
    data: bytes = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What stands in a request in the place of an image, and spells none."""

    reason: str


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image and the placeholder tokens that stand for it."""

    sha256: str  # of the bytes, hexadecimal
    mime: str  # told by the bytes
    data: bytes = field(repr=False, compare=False)  # the original file
    token_span: tuple[int, int]  # index of the first token, number of tokens


@dataclass(frozen=True, slots=True, eq=False)
class ProcessedImage:
    """What an image processor made of an image."""

    sha256: str  # of the original file
    processor: Mapping[str, Any]  # class, backend, versions, digest of its settings
    tensors: Mapping[str, NDArray[np.generic]]
