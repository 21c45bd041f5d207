import json
from typing import Any

import pytest

from turnstile.addon.capture.remote_images import named_images


def request(*parts: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": list(parts)}]}).encode()


def image(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def found(body: bytes) -> list[tuple[str, bool]]:
    return [(named.url, named.is_file) for named in named_images(body)]


@pytest.mark.parametrize("url", ["http://a.example/x.png", "https://a.example/x", " HTTPS://a.example/x"])
def test_an_image_behind_a_web_address_is_found(url: str) -> None:
    expected = [(url.strip(), False)]
    text = {"type": "text", "text": "see"}
    assert found(request(text, image("data:image/png;base64,AA"), image(url))) == expected
    assert found(request({"type": "image_url", "image_url": url})) == expected
    assert found(request(image(url)).replace(b"/", rb"\/")) == expected


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "FILE:/x", "/etc/passwd", "a.png", "C:\\a.JPEG", "../b.webp", "ftp://h/a.gif"],
)
def test_an_image_that_is_a_file_is_found(url: str) -> None:
    assert found(request(image(url))) == [(url, True)]
    assert found(request(image(url)).replace(b"/", rb"\/")) == [(url, True)]


@pytest.mark.parametrize("space", ["\t", "\n", " \r\n", "\f", "\u00a0", "\u3000"])
@pytest.mark.parametrize("url", ["http://h/x", "file:///etc/x", "/etc/x", "a.png"])
def test_white_space_around_a_place_does_not_hide_it(space: str, url: str) -> None:
    body = request(image(f"{space}{url}{space}"))
    expected = [(url, not url.startswith("http"))]
    assert found(body) == expected
    assert found(json.dumps(json.loads(body), ensure_ascii=False).encode()) == expected


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
    assert found(body) == [("http://a.example", False)]


def test_each_is_told_with_the_place_of_its_string() -> None:
    body = request(image("http://a.example/ü"), {"type": "text", "text": "ü"}, image("https://b.example"))
    body = body.decode().replace("\\u00fc", "ü").encode()
    spans = [named.span for named in named_images(body)]
    assert [json.loads(body[span[0] : span[1]]) for span in spans if span] == [
        "http://a.example/ü",
        "https://b.example",
    ]
    twice = b'{"messages":[],"messages":[{"content":[{"image_url":"x","image_url":"http://a"}]}]}'
    (named,) = named_images(twice)
    assert named.span is not None
    assert twice[slice(*named.span)] == b'"http://a"'


def test_a_body_that_is_not_utf8_has_no_places() -> None:
    (named,) = named_images(request(image("http://a.example")).decode().encode("utf-16"))
    assert named.span is None


def test_messages_that_are_resent_unchanged_are_known_again() -> None:
    first, second = ({"role": "user", "content": [image(f"http://{host}")]} for host in "ab")
    (one,) = named_images(json.dumps({"messages": [first]}).encode())
    again, other = named_images(json.dumps({"n": 1, "messages": [first, second]}).encode())
    assert (again.said_before, other.said_before) == (one.said_before, other.said_before)
    assert other.said_before != one.said_before


@pytest.mark.parametrize(
    "body",
    [
        request(image("data:image/png;base64,AA")),
        request(image("/9j/4AAQSkZJRg")),
        request(image("/9j/4AAQSkZJRg")).replace(b"/", rb"\/"),
        request(image("iVBORw0KGgo")),
        request({"type": "text", "text": "image_url http://a.example"}),
        request({"type": "text", "text": "/etc/passwd"}, image("data:image/png;base64,AA")),
        request(image(None), image(7), "image_url", {"type": "image_url"}),
        json.dumps({"messages": [{"role": "user", "content": "image_url: http://a.example"}]}).encode(),
        json.dumps({"messages": {"image_url": "http://a.example"}}).encode(),
        b'["image_url", "http://a.example"]',
        b'{"image_url": "http://a.example',
        b'{"image_url": ' + b"[" * 100_000,
    ],
)
def test_anything_else_is_none(body: bytes) -> None:
    assert found(body) == []
