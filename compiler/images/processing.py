"""What an image processor makes of each image, made once a run however many sequences hold it.

Tensors are tens of megabytes for a screenshot: they wait on the disk until their sequences are written.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from turnstile.compiler.images import pixels
from turnstile.compiler.images.image import Image, ProcessedImage, PromptImage
from turnstile.compiler.images.processor import ImageProcessor, Tensors
from turnstile.compiler.sequence import TrainingSequence

PAINTS_BACKGROUND = ("glm",)
"""Models for which SGLang turns images by EXIF and paints a background of its own behind transparency
(srt/multimodal/processors/glm4v.py): such images are not processed here."""


class Processing:
    """The results of one processor; a context manager, at whose end they are gone."""

    def __init__(self, processor: ImageProcessor, max_pixels: int) -> None:
        self._processor, self._max_pixels = processor, max_pixels
        self._folder = tempfile.TemporaryDirectory(prefix="turnstile-images-")
        self._counts: dict[tuple[str, str], int | str] = {}  # (SHA-256, model type) -> see token_count
        self._made: dict[str, int | None] = {}  # SHA-256 -> tokens, of what lies in the folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def token_count(self, image: Image | PromptImage, model_type: str) -> int | str:
        """How many placeholder tokens the processor gives the image; where none is known why, in words."""
        key = image.sha256, model_type
        if key not in self._counts:
            self._counts[key] = self._counted(image, model_type)
        return self._counts[key]

    def on(self, sequence: TrainingSequence) -> TrainingSequence:
        """The sequence with its processed images; without any unless all of them fit their tokens."""
        if any(self._made.get(image.sha256) != image.token_span[1] for image in sequence.images):
            return sequence
        distinct = dict.fromkeys(image.sha256 for image in sequence.images)
        identity = self._processor.identity
        made = (ProcessedImage(sha256, identity, self._tensors(sha256)) for sha256 in distinct)
        return replace(sequence, processed_images=tuple(made))

    def _counted(self, image: Image | PromptImage, model_type: str) -> int | str:
        painted = model_type.startswith(PAINTS_BACKGROUND)
        if painted and pixels.has_alpha_or_turn(image.data, self._max_pixels):
            return "is transparent or turned by EXIF, and what the server makes of that is not made here"
        if image.sha256 not in self._made:
            try:
                tensors = self._processor.tensors(pixels.rgb(image.data, self._max_pixels))
            except Exception as error:  # a processor is code of the model's makers
                return f"made the image processor fail with a {type(error).__name__}"
            np.savez(self._file(image.sha256), allow_pickle=False, **tensors)
            self._made[image.sha256] = self._processor.token_count(tensors)
        count = self._made[image.sha256]
        return "is given no number of tokens by this processor" if count is None else count

    def _file(self, sha256: str) -> Path:
        return Path(self._folder.name, f"{sha256}.npz")

    def _tensors(self, sha256: str) -> Tensors:
        with np.load(self._file(sha256), allow_pickle=False) as tensors:
            return {name: tensors[name] for name in tensors.files}
