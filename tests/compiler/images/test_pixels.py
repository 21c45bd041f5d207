import io
import zlib

import numpy as np
import pytest
from PIL import Image as Pillow

from tests.support.images import picture
from turnstile.compiler.images import pixels
from turnstile.compiler.images.pixels import ImageTooLarge, UndecodableImage

LIMIT = pixels.MAX_PIXELS


def first_pixel(data: bytes) -> tuple[int, ...]:
    image = pixels.rgb(data, LIMIT)
    assert image.mode == "RGB"
    found = image.getpixel((0, 0))
    assert isinstance(found, tuple)
    return found


def saved(image: Pillow.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_alpha_is_dropped_and_not_painted_over() -> None:
    assert first_pixel(picture((10, 20, 30, 0), mode="RGBA")) == (10, 20, 30)


def test_of_an_animation_the_first_frame_counts() -> None:
    frames = [Pillow.new("RGB", (8, 8), colour) for colour in ("red", "lime")]
    for kind in ("GIF", "WEBP"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
        assert first_pixel(data) == (255, 0, 0)


def test_palettes_grey_and_cmyk_become_rgb() -> None:
    assert first_pixel(saved(Pillow.new("RGB", (8, 8), "red").quantize(), "PNG")) == (255, 0, 0)
    assert first_pixel(picture(7, mode="L")) == (7, 7, 7)
    cmyk = first_pixel(picture((0, 255, 255, 0), mode="CMYK", kind="JPEG"))
    assert np.allclose(cmyk, (255, 0, 0), atol=3)


def test_sixteen_bits_are_cut_as_pillow_cuts_them() -> None:
    wide = Pillow.fromarray(np.full((4, 4), 0x1234, np.uint16))
    with Pillow.open(io.BytesIO(saved(wide, "PNG"))) as reference:
        expected = reference.convert("RGB").getpixel((0, 0))
    assert first_pixel(saved(wide, "PNG")) == expected


def test_a_turn_by_exif_is_ignored() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    data = picture(size=(8, 4), kind="JPEG", exif=exif)
    assert pixels.rgb(data, LIMIT).size == (8, 4)
    assert pixels.has_alpha_or_turn(data, LIMIT)


def test_transparency_is_told() -> None:
    assert pixels.has_alpha_or_turn(picture((1, 2, 3, 4), mode="RGBA"), LIMIT)
    assert not pixels.has_alpha_or_turn(picture(), LIMIT)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF"])
def test_a_truncated_file_cannot_be_decoded(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    data = saved(Pillow.fromarray(noise), kind)
    pixels.check(data, LIMIT)
    with pytest.raises(UndecodableImage):
        pixels.check(data[: len(data) // 2], LIMIT)


@pytest.mark.parametrize(
    "data", [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"<svg/>"]
)
def test_what_is_no_picture_cannot_be_decoded(data: bytes) -> None:
    with pytest.raises(UndecodableImage, match=f"{len(data)} bytes that are no image of a known format"):
        pixels.check(data, LIMIT)


def bomb(side: int) -> bytes:
    """A PNG of few bytes that says it has many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = side.to_bytes(4) * 2 + b"\x08\x02\0\0\0"
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ImageTooLarge, match="60000 x 60000 are 3600000000 pixels, more than 89478485"):
        pixels.check(bomb(60000), LIMIT)


def test_the_limit_is_the_callers_and_pillows_own_is_left_as_it_was() -> None:
    before = Pillow.MAX_IMAGE_PIXELS
    with pytest.raises(ImageTooLarge):
        pixels.check(picture(size=(8, 8)), 63)
    pixels.check(picture(size=(8, 8)), 64)
    with pytest.raises(UndecodableImage):  # and not refused for its size
        pixels.check(bomb(13400), 13400**2)
    assert before == Pillow.MAX_IMAGE_PIXELS
