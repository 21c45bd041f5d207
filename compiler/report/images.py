"""The images of a sequence that a page can show."""

from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.sequence import TrainingSequence

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
"""Pixels only: an SVG is a document, with links of its own."""


def shown_images(sequence: TrainingSequence) -> list[PromptImage]:
    """Those that browsers draw, in their order."""
    return [image for image in sequence.images if image.mime in SHOWN]
