import base64
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.images.image_urls import NotAnImage, image_bytes

DATA = bytes(range(256)) * 2 + b"!"
TEXT = base64.b64encode(DATA).decode()


@pytest.mark.parametrize(
    "url",
    [
        f"data:image/png;base64,{TEXT}",
        f"data:image/png;name=a.png;base64,{TEXT}",
        f"DATA:IMAGE/PNG;BASE64,{TEXT}",
        f"data:text/plain;base64,{TEXT}",
        f"data:,{TEXT}",
        f"data:image/png;base64,{TEXT.rstrip('=')}",
        "data:image/png;base64," + "\n".join(textwrap.wrap(TEXT, 76)),
        "data:image/png;base64," + "\r\n".join(textwrap.wrap(TEXT, 64)) + "\r\n",
        TEXT,
        f" {TEXT} ",
    ],
)
def test_every_spelling_gives_the_same_bytes(url: str) -> None:
    assert image_bytes(url) == DATA


@given(st.binary(min_size=1, max_size=50))
def test_padding_may_be_absent(data: bytes) -> None:
    assert image_bytes(base64.b64encode(data).decode().rstrip("=")) == data


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("data:image/png;base64", "without a comma"),
        ("http://host/a.png", "names a place"),
        ("HTTPS://host/a.png", "names a place"),
        ("file:///etc/passwd", "names a place"),
        ("/srv/a.png", "no base64"),
        ("data:image/png;base64,QUJD-_8=", "no base64"),
        ("data:image/png;base64,QUJD%3D", "no base64"),
        ("data:image/png;base64,QQ==QQ==", "no base64"),
        ("data:image/png;base64,QUJDR", "5 characters of base64 spell no whole bytes"),
        ("data:image/png;base64,", "0 characters"),
        ("", "0 characters"),
    ],
)
def test_what_servers_read_differently_or_not_at_all_is_no_image(url: str, reason: str) -> None:
    with pytest.raises(NotAnImage, match=reason):
        image_bytes(url)
