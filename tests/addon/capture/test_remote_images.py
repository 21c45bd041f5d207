import json
from typing import Any

import pytest

from turnstile.addon.capture.remote_images import names_remote_image


def request(*parts: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": list(parts)}]}).encode()


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("url", ["http://a.example/x.png", "https://a.example/x.png", " HTTPS://a.example/x"])
def test_an_image_behind_a_web_address_is_found(url: str) -> None:
    assert names_remote_image(
        request({"type": "text", "text": "see"}, image("data:image/png;base64,AA"), image(url))
    )
    assert names_remote_image(request({"type": "image_url", "image_url": url}))
    assert names_remote_image(request(image(url)).replace(b"/", rb"\/"))


@pytest.mark.parametrize(
    "body",
    [
        request(image("http://a.example")).replace(b"http", rb"\u0068ttp"),
        request(image("http://a.example")).replace(b":/", rb"\u003a/"),
        request(image("http://a.example")).replace(b"image_url", rb"image\u005furl"),
        request(image("http://a.example")).decode().encode("utf-16"),
    ],
)
def test_other_spellings_of_a_web_address_are_found(body: bytes) -> None:
    assert names_remote_image(body)


@pytest.mark.parametrize(
    "body",
    [
        request(image("data:image/png;base64,AA")),
        request({"type": "text", "text": "image_url http://a.example"}),
        request(image(None), image(7), "image_url", {"type": "image_url"}),
        json.dumps({"messages": [{"role": "user", "content": "image_url: http://a.example"}]}).encode(),
        json.dumps({"messages": {"image_url": "http://a.example"}}).encode(),
        b'["image_url", "http://a.example"]',
        b'{"image_url": "http://a.example',
        b'{"image_url": ' + b"[" * 100_000,
    ],
)
def test_anything_else_is_none(body: bytes) -> None:
    assert not names_remote_image(body)
