"""Ties the images of a request to the placeholder tokens of its prompt, and checks each of them.

A turn is left out when one of its images spells no bytes, cannot be decoded or is too large, when nothing
tells which token stands for an image, and when there are more or fewer runs of it than images. Without
images a placeholder token is a token. A processor that counts other tokens than the prompt has does not
take the turn away, for its tokens and files are what the model saw: only no tensors are made for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.images import pixels
from turnstile.compiler.images.image import Image, PromptImage, Unreadable
from turnstile.compiler.images.placeholders import Placeholders, Spans, parted, placeholders_of
from turnstile.compiler.images.processing import Processing
from turnstile.compiler.images.processor import ImageProcessor
from turnstile.compiler.model_folders import ModelFolders
from turnstile.compiler.sequence import TrainingSequence

Backend = Mapping[str, Any]  # the probe in force, as a log holds it
Found = Sequence[Image | Unreadable]
Problem = tuple[str, str]  # kind of the finding, message
Placed = tuple[PromptImage, ...]


@contextmanager
def image_placer(options: ModelFolders) -> Iterator["ImagePlacer"]:
    """What reads the images of a compilation. Raises UnusableFolder for folders that cannot be used."""
    if options.processor is None:
        yield ImagePlacer(options, None)
        return
    with Processing(ImageProcessor(options.processor), options.max_pixels) as processing:
        yield ImagePlacer(options, processing)


class ImagePlacer:
    """Places the images of turn after turn; each distinct one is decoded once."""

    def __init__(self, options: ModelFolders, processing: Processing | None) -> None:
        self._max_pixels, self._processing = options.max_pixels, processing
        self._config, self._tokens = options.model_config(), options.added_tokens()
        self._problems: dict[str, Problem | None] = {}  # SHA-256 -> what keeps the image out

    def place(
        self, images: Found, prompt_ids: NDArray[np.int32], backend: Backend | None, place: Place
    ) -> tuple[Placed | None, list[Finding]]:
        """The images of a prompt [P] with their tokens; None with the reason where that is not known."""
        if not images:
            return (), []
        whole = list[Image]()
        for number, image in enumerate(images, 1):
            problem = self._problem(image)
            if problem is not None:
                kind, message = problem
                return None, [place.error(kind, f"image {number} of {len(images)}: {message}")]
            whole += [image] if isinstance(image, Image) else []
        config = self._config if self._config is not None else _config_of(backend)
        placeholders = placeholders_of(config, self._tokens)
        if placeholders is None:
            return None, [place.error("placeholder_mismatch", _untold(len(images), config))]
        spans = placeholders.spans(prompt_ids, len(whole))
        if len(spans) < len(whole):
            spans = self._parted(spans, whole, config) or spans
        if len(spans) != len(whole):
            return None, [place.error("placeholder_mismatch", _mismatch(len(images), spans, placeholders))]
        placed = tuple(
            PromptImage(image.sha256, image.mime, image.data, span)
            for image, span in zip(whole, spans, strict=True)
        )
        return placed, self._processed(placed, str(config.get("model_type", "")), place)

    def with_processed(self, sequence: TrainingSequence) -> TrainingSequence:
        """The sequence with its processed images, where a processor was named and fits."""
        return sequence if self._processing is None else self._processing.on(sequence)

    def _parted(self, spans: Spans, images: Sequence[Image], config: Mapping[str, Any]) -> Spans | None:
        """Runs of several images each, parted by what the processor says of these; None where it cannot."""
        if self._processing is None:
            return None
        model_type = str(config.get("model_type", ""))
        counts = [self._processing.token_count(image, model_type) for image in images]
        known = [count for count in counts if isinstance(count, int)]
        return parted(spans, known) if len(known) == len(images) else None

    def _problem(self, image: Image | Unreadable) -> Problem | None:
        if isinstance(image, Unreadable):
            return "image_undecodable", image.reason
        if image.sha256 not in self._problems:
            self._problems[image.sha256] = self._pixel_problem(image)
        return self._problems[image.sha256]

    def _pixel_problem(self, image: Image) -> Problem | None:
        try:
            pixels.check(image.data, self._max_pixels)
        except pixels.ImageTooLarge as error:
            return "image_too_large", f"{error}; --max-image-pixels sets the limit"
        except pixels.UndecodableImage as error:
            return "image_undecodable", f"Pillow cannot decode it as the server must have: {error}"
        return None

    def _processed(self, placed: Placed, model_type: str, place: Place) -> list[Finding]:
        """Has the images processed; one finding for those that do not fit, one for those that cannot be."""
        if self._processing is None:
            return []
        wrong, failed = list[str](), list[str]()
        for number, image in enumerate(placed, 1):
            name, found = f"image {number} of {len(placed)}", image.token_span[1]
            count = self._processing.token_count(image, model_type)
            if isinstance(count, str):
                failed.append(f"{name} {count}")
            elif count != found:
                wrong.append(f"{name} has {found} placeholder tokens, the processor's grid gives {count}")
        ending = "; its sequence has no processed_images"
        return [
            *([place.error("image_token_count", "; ".join(wrong) + ending)] if wrong else []),
            *([place.warning("image_not_processed", "; ".join(failed) + ending)] if failed else []),
        ]


def _config_of(backend: Backend | None) -> Mapping[str, Any]:
    """What the log tells of the model: its config.json, and what the backend itself says of its type."""
    told = backend or {}
    return {**(told.get("model_config") or {}), **(told.get("model_info") or {})}


def _untold(count: int, config: Mapping[str, Any]) -> str:
    model_type = config.get("model_type", "unknown")
    return (
        f"{count} images, and nothing tells which token stands for one: the log has no config.json of the "
        f"model (type {model_type}) that does. Name the model's folder with --model, or the tokenizer's with "
        "--tokenizer"
    )


def _mismatch(count: int, spans: Spans, placeholders: Placeholders) -> str:
    return (
        f"{count} images in the request, and {len(spans)} runs of the placeholder token "
        f"{placeholders.image_id} in the prompt: nothing tells which belong together"
    )
