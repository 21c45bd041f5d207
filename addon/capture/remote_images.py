"""Finds images that a chat request names by an http(s) address.

The backend would fetch such an image by itself, and the log could not tell which bytes the model saw.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_WEB_ADDRESS = re.compile(rb'"\s*[Hh][Tt][Tt][Pp][Ss]?:')  # at the beginning of a string
_ESCAPED_ASCII = re.compile(rb"\\u00[0-7]")  # which a serialiser writes for control characters at the most


def names_remote_image(body: bytes) -> bool:
    """Whether some message of the request holds an image_url that begins with http:// or https://."""
    if not _may_name_one(body):
        return False
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return any(url.lower().startswith(("http://", "https://")) for url in _image_urls(request))


def _may_name_one(body: bytes) -> bool:
    """Cheaply, for a body may hold megabytes of images: only what may name one is parsed."""
    spelled_out = b"image_url" in body and _WEB_ADDRESS.search(body) is not None
    is_not_utf8 = b"\0" in body[:8]  # servers read JSON in UTF-16 and UTF-32 too
    return spelled_out or is_not_utf8 or (b"\\u00" in body and _ESCAPED_ASCII.search(body) is not None)


def _image_urls(request: Any) -> Iterator[str]:
    for message in _list(request, "messages"):
        for part in _list(message, "content"):
            image = part.get("image_url") if isinstance(part, dict) else None
            url = image.get("url") if isinstance(image, dict) else image
            if isinstance(url, str):
                yield url.strip()


def _list(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []
