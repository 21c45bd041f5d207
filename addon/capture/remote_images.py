"""Finds images that a chat request names by a place: an http(s) address, a file.

The backend would fetch such an image by itself, and the log could not tell which bytes the model saw. SGLang
0.5.23 also opens files for whoever names one: `file://`, what begins with a slash, what ends like the name
of a picture (srt/utils/common.py, load_image).
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.json_edit import JsonObject, array_items, parse_object

# White space as a JSON string may hold it: escaped, or beyond ASCII. What else it takes is sorted out later.
_SPACE = rb"(?:[\s\x80-\xff]|\\[bfnrt]|\\u[0-9A-Fa-f]{4})*+"
# A string that begins with a scheme or a slash, which a serialiser may write \/. The base64 of a JPEG begins
# with /9j/ and is no path.
_BEGINS_LIKE_A_PLACE = re.compile(
    rb'"' + _SPACE + rb"(?:[Hh][Tt][Tt][Pp][Ss]?:|[Ff][Ii][Ll][Ee]:|\\?/(?!9j\\?/))"
)
_ENDS_LIKE_A_PICTURE = re.compile(
    rb"\.(?:[Pp][Nn][Gg]|[Jj][Pp][Ee]?[Gg]|[Ww][Ee][Bb][Pp]|[Gg][Ii][Ff])" + _SPACE + rb'"'
)
_ESCAPED_ASCII = re.compile(rb"\\u00[0-7]")  # which a serialiser writes for control characters at the most
_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_FILE = re.compile(r"file:|/(?!9j/)|(?!data:).*\.(?:png|jpe?g|webp|gif)$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamedImage:
    """An image_url that names a place."""

    url: str
    is_file: bool  # else it is an http(s) address
    said_before: bytes  # digest of the messages up to its own: the same where they are resent unchanged
    span: tuple[int, int] | None  # of its JSON string in the body; None where it cannot be told


def named_images(body: bytes) -> list[NamedImage]:
    """The images in the messages of a request that are named by a place, in their order."""
    if not _may_name_one(body):
        return []
    try:
        messages = _list(json.loads(body), "messages")
    except (ValueError, RecursionError):
        return []
    named = [
        (at, number, url)
        for at, message in enumerate(messages)
        for number, url in _image_urls(message)
        if _WEB_ADDRESS.match(url) or _FILE.match(url)
    ]
    if not named:
        return []
    spans, said_before = _spans(body), _digests(messages)
    return [
        NamedImage(url, not _WEB_ADDRESS.match(url), said_before[at], spans.get((at, number)))
        for at, number, url in named
    ]


def _may_name_one(body: bytes) -> bool:
    """Cheaply, for a body may hold megabytes of images: only what may name one is parsed."""
    if b"\0" in body[:8]:  # servers read JSON in UTF-16 and UTF-32 too
        return True
    if b"\\u00" in body and _ESCAPED_ASCII.search(body) is not None:
        return True
    is_spelled = b"image_url" in body or b"input_image" in body
    return is_spelled and any(
        place.search(body) is not None for place in (_BEGINS_LIKE_A_PLACE, _ENDS_LIKE_A_PICTURE)
    )


def _image_urls(message: Any) -> Iterator[tuple[int, str]]:
    """Number of the part, URL."""
    for number, part in enumerate(_list(message, "content")):
        image = part.get("image_url") if isinstance(part, dict) else None
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str):
            yield number, url.strip()


def _digests(messages: list[Any]) -> list[bytes]:
    """For each message one of all up to it."""
    running, digests = hashlib.blake2b(digest_size=16), list[bytes]()
    for message in messages:
        running.update(json.dumps(message).encode() + b"\0")
        digests.append(running.digest())
    return digests


def _spans(body: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """(number of the message, number of the part) -> where its URL's JSON string lies."""
    try:
        return dict(_url_spans(body))
    except AskingError:  # JSON that cannot be edited byte by byte, as UTF-16 cannot
        return {}


def _url_spans(body: bytes) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for at, message in _items(body, (0, len(body)), "messages"):
        for number, part in _items(body, message, "content"):
            span = _member(body, part, "image_url")
            if span is not None and body.startswith(b"{", span[0]):
                span = _member(body, span, "url")
            if span is not None:
                yield (at, number), span


def _items(body: bytes, span: tuple[int, int], key: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Number and place of each object in the array that the object at `span` has under `key`."""
    array = _member(body, span, key)
    if array is not None and body.startswith(b"[", array[0]):
        for number, (start, end) in enumerate(array_items(body, *array)):
            if body.startswith(b"{", start):
                yield number, (start, end)


def _member(body: bytes, span: tuple[int, int], key: str) -> tuple[int, int] | None:
    start, end = span
    source: JsonObject = parse_object(body[start:end])
    member = source.member(key)
    return None if member is None else (start + member.value_start, start + member.value_end)


def _list(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []
