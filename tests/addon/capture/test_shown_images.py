import base64
import hashlib
import io

import pytest
from PIL import Image

from turnstile.addon.capture.shown_images import image_size, placeholder_runs, shown_image


def encoded(format_name: str, size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, format_name)
    return file.getvalue()


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "GIF"])
def test_the_head_of_a_file_tells_its_size(format_name: str) -> None:
    assert image_size(encoded(format_name, (112, 84))) == (112, 84)


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "GIF"])
def test_a_file_that_is_cut_off_anywhere_tells_its_size_or_none(format_name: str) -> None:
    whole = encoded(format_name, (112, 84))
    assert {image_size(whole[:end]) for end in range(len(whole))} == {None, (112, 84)}


def test_an_image_is_named_by_its_digest_and_size() -> None:
    data = encoded("PNG", (112, 84))
    text = base64.b64encode(data).decode()
    digest = hashlib.sha256(data).hexdigest()[:8]
    assert shown_image({"url": f"data:image/png;base64,{text}"}, 12) == f"[image {digest} 112x84, 12 tokens]"
    assert shown_image(text, None) == f"[image {digest} 112x84]"


def test_an_image_elsewhere_is_named_by_its_url() -> None:
    assert shown_image({"url": "https://a.example/b.png"}, None) == "[image https://a.example/b.png]"


@pytest.mark.parametrize("part", [None, {}, {"url": 7}, {"url": "data:image/png;base64,A"}])
def test_what_is_no_image_is_named_so(part: object) -> None:
    assert shown_image(part, None).startswith("[image ")


def test_images_have_lengths_only_where_there_is_a_run_for_each() -> None:
    prompt = [1, 9, 9, 9, 2, 9, 9]
    assert placeholder_runs(prompt, 9, 2) == [3, 2]
    assert placeholder_runs(prompt, 9, 3) is None
    assert placeholder_runs(prompt, None, 2) is None
