"""An image of a request in a few words: `[image 3f2a91bc 112x84, 12 tokens]`."""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

_URL_LENGTH = 100
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # markers of a frame's head


def shown_image(part: Any, tokens: int | None) -> str:
    """An `image_url` part of a message; `tokens` stand for it in the prompt, None where that is unknown."""
    url = part.get("url") if isinstance(part, dict) else part
    if not isinstance(url, str):
        return "[image without a URL]"
    if re.match(r"(?:https?|file):", url, re.IGNORECASE):
        return f"[image {url[:_URL_LENGTH]}]"
    try:
        # as lenient as the servers: characters that are no base64 are passed over
        data = base64.b64decode(url.partition(",")[2] if url[:5].lower() == "data:" else url)
    except (ValueError, binascii.Error):
        return "[image that is no base64]"
    size = image_size(data)
    words = [hashlib.sha256(data).hexdigest()[:8], f"{size[0]}x{size[1]}" if size else f"{len(data):,} bytes"]
    return f"[image {' '.join(words)}{'' if tokens is None else f', {tokens} token{"s" * (tokens != 1)}'}]"


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as the head of a PNG, GIF or JPEG tells them; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return _jpeg_size(data) if data.startswith(b"\xff\xd8") else None


def placeholder_runs(prompt_ids: Sequence[Any], image_token: int | None, count: int) -> list[int] | None:
    """How many tokens stand for each of `count` images; None unless the prompt has a run for each."""
    if image_token is None:
        return None
    runs = [sum(1 for _ in run) for token, run in groupby(prompt_ids) if token == image_token]
    return runs if len(runs) == count else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_SIZES:
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return None
