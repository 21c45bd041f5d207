import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.image_server import ImageServer
from tests.support.images import image_part
from turnstile.addon.capture import fetched_images
from turnstile.addon.capture.answers import Answer
from turnstile.addon.capture.fetched_images import FetchedImages
from turnstile.addon.capture.image_hosts import parse_hosts
from turnstile.addon.capture.remote_images import named_images
from turnstile.addon.tracelog.records import spliced


@pytest.fixture
async def server() -> AsyncIterator[ImageServer]:
    with ImageServer().running() as running:
        yield running


def body(*messages: Any) -> bytes:
    return json.dumps({"messages": messages}).encode()


def user(*urls: str) -> dict[str, Any]:
    return {"role": "user", "content": [image_part(url) for url in urls]}


def images() -> FetchedImages:
    return FetchedImages(parse_hosts("127.0.0.1"))


async def sent(store: FetchedImages, request: bytes, rollout_id: str | None = None) -> list[str]:
    """The URLs of the images that the backend would get."""
    splices = await store.splices(named_images(request), "g", rollout_id)
    assert isinstance(splices, tuple)
    messages = json.loads(spliced(request, splices))["messages"]
    return [part["image_url"]["url"] for message in messages for part in message["content"]]


async def refused(store: FetchedImages, request: bytes) -> tuple[str, str]:
    answer = await store.splices(named_images(request), "g", None)
    assert isinstance(answer, Answer)
    assert answer.status == 400
    return answer.content["error"]["code"], answer.content["error"]["message"]


def as_url(data: bytes, media_type: str = "application/octet-stream") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


async def test_an_address_becomes_a_data_url_of_its_bytes(server: ImageServer) -> None:
    url = server.has("/a", b"bytes", content_type="image/png; charset=x")
    other = server.has("/b", b"other", content_type='text/html"')
    kept = "data:image/png;base64,AAAA"
    assert await sent(images(), body(user(url, kept), user(other))) == [
        as_url(b"bytes", "image/png"),
        kept,
        as_url(b"other"),
    ]


async def test_an_address_that_is_named_twice_is_fetched_once(server: ImageServer) -> None:
    url = server.has("/a", b"one", b"two")
    assert await sent(images(), body(user(url, url), user(url))) == [as_url(b"one")] * 3
    assert server.asked == ["/a"]


async def test_a_message_that_is_sent_again_shows_what_it_showed(server: ImageServer) -> None:
    store, url = images(), server.has("/screen", b"one", b"two")
    first = user(url)
    assert await sent(store, body(first)) == [as_url(b"one")]
    assert await sent(store, body(first, user(url))) == [as_url(b"one"), as_url(b"two")]
    assert await sent(store, body(first, user(url))) == [as_url(b"one"), as_url(b"two")]
    assert len(server.asked) == 2


async def test_another_rollout_or_another_history_fetches_anew(server: ImageServer) -> None:
    store, url = images(), server.has("/screen", b"one", b"two", b"three")
    assert await sent(store, body(user(url)), "a") == [as_url(b"one")]
    assert await sent(store, body(user(url)), "b") == [as_url(b"two")]
    text = {"role": "system", "content": []}
    assert await sent(store, body(text, user(url)), "a") == [as_url(b"three")]


async def test_what_is_kept_is_bounded(server: ImageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched_images, "KEPT_BYTES", 3000)
    store, urls = images(), [server.has(f"/{number}", bytes(1000)) for number in range(4)]
    for url in (*urls, urls[-1], urls[0]):
        await sent(store, body(user(url)))
    assert server.asked == ["/0", "/1", "/2", "/3", "/0"]


async def test_what_is_kept_is_bounded_where_another_takes_its_place(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched_images, "KEPT_BYTES", 3000)
    store, url, first_is_kept, is_first = images(), server.has("/a"), threading.Event(), [True]

    def answer() -> tuple[int, dict[str, str], bytes]:
        if is_first.pop() if is_first else False:
            return 200, {}, b"small"
        first_is_kept.wait()
        return 200, {}, bytes(2000)

    server.answers["/a"] = answer
    both = [asyncio.create_task(sent(store, body(user(url)))) for _ in range(2)]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    first_is_kept.set()
    await asyncio.gather(*both)
    await sent(store, body(user(server.has("/b", bytes(1000)))))
    await sent(store, body(user(url)))
    assert server.asked == ["/a", "/a", "/b", "/a"]


async def test_a_request_may_name_so_many_addresses(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched_images, "MAX_ADDRESSES", 2)
    one, two, three = (server.has(f"/{number}", b"bytes") for number in range(3))
    code, message = await refused(images(), body(user(one, two), user(three)))
    assert (code, server.asked) == ("remote_image", [])
    assert "name 3 different http(s) addresses; at most 2 are fetched" in message
    assert await sent(images(), body(user(one, two, one), user(two))) == [as_url(b"bytes")] * 4


async def test_the_images_of_a_request_may_be_so_large_together(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched_images, "MAX_REQUEST_BYTES", 3 << 20)
    store, urls = images(), [server.has(f"/{number}", bytes(1 << 20)) for number in range(3)]
    assert len(await sent(store, body(user(*urls[:2])))) == 2
    again_and_another = body(user(*urls[:2]), user(urls[2]))
    for request in (body(user(*urls)), body(user(urls[0], urls[0], urls[0])), again_and_another):
        code, message = await refused(store, request)
        assert (code, "more than 3 MiB as data: URLs" in message) == ("remote_image", True)


async def test_without_hosts_nothing_is_fetched_and_it_is_said_what_to_do() -> None:
    code, message = await refused(FetchedImages(None), body(user("http://a.example/x")))
    assert (code, "name the host in turnstile_fetch_images" in message) == ("remote_image", True)
    assert await FetchedImages(None).splices([], "g", None) == ()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "/etc/passwd", "a.png"])
async def test_files_are_refused_whatever_hosts_are_named(url: str) -> None:
    for store in (images(), FetchedImages(None)):
        code, message = await refused(store, body(user(url)))
        assert (code, "names a file" in message) == ("remote_image", True)


async def test_hosts_that_are_not_named_and_images_that_cannot_be_had_are_told_apart(
    server: ImageServer,
) -> None:
    code, message = await refused(images(), body(user("http://a.example/x")))
    assert (code, message) == (
        "remote_image",
        "a.example is none of the hosts in turnstile_fetch_images. Name the host there, or send the image "
        "as a data: URL.",
    )
    code, message = await refused(images(), body(user(server.url + "/absent")))
    assert (code, message) == (
        "image_not_fetched",
        "An image could not be fetched: 127.0.0.1 answered 404, expected 200.",
    )


async def test_a_body_that_cannot_be_edited_is_refused(server: ImageServer) -> None:
    url = server.has("/a", b"bytes")
    code, message = await refused(images(), body(user(url)).decode().encode("utf-16"))
    assert (code, "send it in UTF-8" in message) == ("remote_image", True)
    assert server.asked == []
