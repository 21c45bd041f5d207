import pytest

from tests.support.images import picture
from turnstile.compiler.images.image_types import UNKNOWN, image_type


@pytest.mark.parametrize(
    ("kind", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
        ("AVIF", "image/avif"),
        ("ICO", "image/x-icon"),
        ("JPEG2000", "image/jp2"),
    ],
)
def test_the_bytes_tell_the_type(kind: str, mime: str) -> None:
    assert image_type(picture(kind=kind)) == mime


@pytest.mark.parametrize("data", [b"", b"RIFF", b"<svg/>", b"\0\0\0\x20ftypmp42"])
def test_other_bytes_tell_none(data: bytes) -> None:
    assert image_type(data) == UNKNOWN
