"""The images that the messages of a request hold, in the order in which a server takes them out.

That is the order of the messages and of their parts, whoever wrote them: the user, a tool, the assistant
(SGLang 0.5.23, srt/parser/jinja_template_utils.py). An image that is sent again is the same object.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.images.image_types import image_type
from turnstile.compiler.images.image_urls import NotAnImage, image_bytes

_IMAGE_PARTS = ("image_url", "input_image")
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "thinking", "reasoning", None)


class ImageStore:
    """The images of one group, each distinct one once."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}  # by their SHA-256

    def images_of(self, message: Any) -> Iterator[Image | Unreadable]:
        """The images of a message in order."""
        for part in _parts(message):
            if part.get("type") in _IMAGE_PARTS:
                yield self._image(part.get("image_url"))

    def _image(self, found: Any) -> Image | Unreadable:
        url = found.get("url") if isinstance(found, dict) else found
        if not isinstance(url, str):
            return Unreadable(f"its URL is a {type(url).__name__}, expected a text")
        try:
            data = image_bytes(url)
        except NotAnImage as error:
            return Unreadable(str(error))
        sha256 = hashlib.sha256(data).hexdigest()
        return self._images.setdefault(sha256, Image(sha256, image_type(data), data))


def other_media_of(message: Any) -> Iterator[bytes]:
    """A digest of each part that is neither text nor an image (video, sound, a file), in order."""
    for part in _parts(message):
        kind = part.get("type")
        if kind not in _IMAGE_PARTS and kind not in _TEXT_PARTS:
            yield hashlib.sha256(orjson.dumps(part)).digest()


def _parts(message: Any) -> Iterator[Mapping[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part
