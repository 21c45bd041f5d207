"""An image file as pixels, decoded as the server decodes it, and never differently.

SGLang 0.5.23 opens the bytes with Pillow, loads the first frame whole and converts it to RGB: alpha is
dropped, EXIF orientation ignored, CMYK and palettes converted, 16 bits cut as Pillow cuts them
(srt/utils/common.py, srt/multimodal/processors/base_processor.py). Only formats are read that hold pixels:
Pillow knows some that are programs.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from PIL import Image as Pillow
from PIL import UnidentifiedImageError

FORMATS = ("AVIF", "BMP", "GIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")

MAX_PIXELS = 89_478_485
"""Pillow's own limit (a quarter of a GiB in RGB), from which on it warns of decompression bombs."""


class UndecodableImage(Exception):
    """The server cannot have made pixels of these bytes; the message says why."""


class ImageTooLarge(Exception):
    """The image has more pixels than are wanted here."""


def check(data: bytes, max_pixels: int) -> None:
    """Decodes the image and forgets it. Raises ImageTooLarge, before it is decoded, or UndecodableImage."""
    with _opened(data, max_pixels):
        pass


def rgb(data: bytes, max_pixels: int) -> Pillow.Image:
    """The first frame in RGB. Raises as `check`."""
    with _opened(data, max_pixels) as image:
        return image if image.mode == "RGB" else image.convert("RGB")


def has_alpha_or_turn(data: bytes, max_pixels: int) -> bool:
    """Whether the image has transparency, or asks by EXIF to be turned. Raises as `check`."""
    with _opened(data, max_pixels) as image:
        orientation = image.getexif().get(0x0112, 1)
        return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info or orientation != 1


@contextmanager
def _opened(data: bytes, max_pixels: int) -> Iterator[Pillow.Image]:
    """The image, its first frame loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is odd in a file that can be read
        limit, Pillow.MAX_IMAGE_PIXELS = Pillow.MAX_IMAGE_PIXELS, None  # ours is checked here
        try:
            image = _loaded(data, max_pixels)
        finally:
            Pillow.MAX_IMAGE_PIXELS = limit
        yield image


def _loaded(data: bytes, max_pixels: int) -> Pillow.Image:
    try:
        image = Pillow.open(io.BytesIO(data), formats=_known_formats())
        if (pixels := image.width * image.height) > max_pixels:
            raise ImageTooLarge(f"{image.width} x {image.height} are {pixels} pixels, more than {max_pixels}")
        image.load()
    except ImageTooLarge:
        raise
    except UnidentifiedImageError as error:
        raise UndecodableImage(f"{len(data)} bytes that are no image of a known format") from error
    except Exception as error:  # whatever a damaged file makes a decoder raise
        raise UndecodableImage(f"{type(error).__name__}: {error}") from error
    return image


@cache
def _known_formats() -> tuple[str, ...]:
    """Those that this build of Pillow reads."""
    Pillow.init()
    return tuple(name for name in FORMATS if name in Pillow.OPEN)
