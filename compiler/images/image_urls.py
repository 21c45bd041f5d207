"""The bytes that the text of an image_url spells.

SGLang 0.5.23 reads what follows the first comma of a `data:` URL as base64, whatever stands before it, and a
text that is no URL as base64 all of it (srt/utils/common.py, load_image). It refuses line breaks and absent
padding; servers that take them drop the ones and add the other, so these spell the same bytes everywhere.
Anything else that is no base64 spells different bytes to different servers, and is left out.
"""

import base64
import re

_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_BASE64 = re.compile(r"([A-Za-z0-9+/]*)(={0,2})")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class NotAnImage(ValueError):
    """The text spells no bytes; the message says why, without any of it."""


def image_bytes(url: str) -> bytes:
    """The bytes that an image_url spells. Raises NotAnImage when it spells none."""
    encoded = url
    if url[:5].lower() == "data:":
        _, comma, encoded = url.partition(",")
        if not comma:
            raise NotAnImage("it is a data: URL without a comma")
    elif _ADDRESS.match(url):
        raise NotAnImage("it names a place: nobody can tell which bytes the model saw")
    return _decoded(_SPACE.sub("", encoded))


def _decoded(encoded: str) -> bytes:
    match = _BASE64.fullmatch(encoded)
    if match is None:
        raise NotAnImage("it is no base64: servers that read it all the same read it in different ways")
    digits = match[1]
    if not digits or len(digits) % 4 == 1:
        raise NotAnImage(f"{len(digits)} characters of base64 spell no whole bytes")
    return base64.b64decode(digits + "=" * (-len(digits) % 4))
