from typing import Any

import pytest

from tests.support.images import data_url, image_part, picture, sha256, shown
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.images.request_images import ImageStore, other_media_of

RED, BLUE = picture("red"), picture("blue")


def names(*messages: Any) -> list[str]:
    store = ImageStore()
    found = [image for message in messages for image in store.images_of(message)]
    return [image.sha256 if isinstance(image, Image) else image.reason for image in found]


def test_images_come_in_the_order_of_messages_and_parts_whoever_wrote_them() -> None:
    text = {"type": "text", "text": "and"}
    tool = {"role": "tool", "content": [image_part(data_url(BLUE)), text, image_part(data_url(RED))]}
    assert names(shown(RED), {"role": "user", "content": "text"}, tool) == [
        sha256(RED),
        sha256(BLUE),
        sha256(RED),
    ]


def test_a_url_may_be_an_object_or_a_text() -> None:
    url = data_url(RED)
    parts = [
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": url},
        image_part(url),
    ]
    assert names({"role": "user", "content": parts}) == [sha256(RED)] * 3


def test_the_bytes_tell_the_media_type_and_are_kept_as_they_are() -> None:
    store = ImageStore()
    (image,) = store.images_of({"content": [image_part(data_url(RED, "data:image/gif;base64,"))]})
    assert isinstance(image, Image)
    assert (image.mime, image.data) == ("image/png", RED)


def test_an_image_that_is_sent_again_is_the_same_object() -> None:
    store = ImageStore()
    ((one,), (other,)) = (list(store.images_of(shown(RED))) for _ in range(2))
    assert one is other


def test_what_spells_no_image_is_said_in_its_place() -> None:
    parts = [image_part("http://host/a.png"), {"type": "image_url"}, {"type": "image_url", "image_url": {}}]
    first, *others = ImageStore().images_of({"content": parts})
    assert isinstance(first, Unreadable)
    assert "names a place" in first.reason
    assert others == [Unreadable("its URL is a NoneType, expected a text")] * 2


@pytest.mark.parametrize("kind", ["video_url", "input_audio", "audio", "file", 7])
def test_what_is_neither_text_nor_image_is_told_by_its_bytes(kind: Any) -> None:
    one, again, other = (list(other_media_of({"content": [{"type": kind, "data": d}]})) for d in "aab")
    assert (len(one), one == again, one == other) == (1, True, False)


@pytest.mark.parametrize("message", [shown(RED), "no object", {"content": [{"type": "text", "text": "a"}]}])
def test_text_and_images_are_no_other_media(message: Any) -> None:
    assert list(other_media_of(message)) == []
