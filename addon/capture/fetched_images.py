"""Puts the bytes of images in the place of their addresses, so that model and log see the same.

An image is fetched when a message that names it is first sent. Where the same conversation sends that message
again, unchanged, the model sees again what it saw: what lies behind the address may have changed meanwhile.
"""

import asyncio
import re
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pybase64

from turnstile.addon.capture.answers import Answer, invalid_request
from turnstile.addon.capture.image_fetch import (
    Fetched,
    HostNotNamed,
    ImageNotFetched,
    NoRoom,
    Room,
    fetch_image,
)
from turnstile.addon.capture.image_hosts import ImageHosts
from turnstile.addon.capture.remote_images import NamedImage
from turnstile.addon.tracelog.records import Splice

KEPT_BYTES = 64 << 20
MAX_ADDRESSES = 128  # different ones in one request
MAX_REQUEST_BYTES = 64 << 20  # of data: URLs that are put into one request
THREADS = 8

type _Key = tuple[str, str | None, bytes, str]  # group, rollout, messages up to it, URL

_IMAGE_TYPE = re.compile(r"image/[a-z0-9.+-]+")


class FetchedImages:
    """Fetches from `hosts`, None: from nowhere; keeps what was shown, the latest KEPT_BYTES of it."""

    def __init__(self, hosts: ImageHosts | None) -> None:
        self._hosts = hosts
        self._kept = OrderedDict[_Key, bytes]()  # as JSON strings
        self._free_bytes = KEPT_BYTES
        self._threads = ThreadPoolExecutor(THREADS, "turnstile-images") if hosts else None

    async def splices(
        self, images: list[NamedImage], group_id: str, rollout_id: str | None
    ) -> tuple[Splice, ...] | Answer:
        """The edits that replace each address by a data: URL; the harness's answer where that cannot be."""
        if not images:
            return ()
        if any(image.is_file for image in images):
            return _refused(_FILE)
        if self._hosts is None:
            return _refused(_OFF)
        if any(image.span is None for image in images):
            return _refused(_NOT_UTF8)
        if (count := len({image.url for image in images})) > MAX_ADDRESSES:
            return _refused(_too_many(count))
        keys = [(group_id, rollout_id, image.said_before, image.url) for image in images]
        try:
            strings = await self._strings(keys)
        except NoRoom:
            return _refused(_too_large())
        except HostNotNamed as error:
            return _refused(f"{error}. Name the host there, or send the image as a data: URL.")
        except ImageNotFetched as error:
            message = f"An image could not be fetched: {error}."
            return invalid_request(400, message, code="image_not_fetched", param="messages")
        for key, string in zip(keys, strings, strict=True):
            self._keep(key, string)
        spans = [image.span or (0, 0) for image in images]
        return tuple(Splice(*span, string) for span, string in zip(spans, strings, strict=True))

    async def _strings(self, keys: list[_Key]) -> list[bytes]:
        """What to put in the place of each. Raises ImageNotFetched."""
        known = {key: self._kept[key] for key in keys if key in self._kept}
        new = dict.fromkeys(key[-1] for key in keys if key not in known)
        room = Room(MAX_REQUEST_BYTES - sum(len(known[key]) for key in keys if key in known))
        fetching = (self._fetch(url, room) for url in new)
        fetched = dict(zip(new, await asyncio.gather(*fetching), strict=True))
        strings = [known[key] if key in known else fetched[key[-1]] for key in keys]
        # Base64 is longer than what was fetched, and an address may be named more than once.
        Room(MAX_REQUEST_BYTES).take(sum(map(len, strings)))
        return strings

    async def _fetch(self, url: str, room: Room) -> bytes:
        assert self._hosts is not None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _as_json_string, url, self._hosts, room)

    def _keep(self, key: _Key, string: bytes) -> None:
        self._free_bytes += len(self._kept.pop(key, b"")) - len(string)
        self._kept[key] = string
        while self._free_bytes < 0 and len(self._kept) > 1:
            self._free_bytes += len(self._kept.popitem(last=False)[1])


def _as_json_string(url: str, hosts: ImageHosts, room: Room) -> bytes:
    fetched = fetch_image(url, hosts, room)
    return b'"data:%b;base64,%b"' % (_media_type(fetched).encode(), pybase64.b64encode(fetched.data))


def _media_type(fetched: Fetched) -> str:
    said = fetched.content_type.partition(";")[0].strip().lower()
    return said if _IMAGE_TYPE.fullmatch(said) else "application/octet-stream"


_OFF = (
    "An image_url names an http(s) address: the backend would fetch it, and the record could not tell which "
    "bytes the model saw. Send the image as a data: URL, or name the host in turnstile_fetch_images."
)
_FILE = (
    "An image_url names a file: the backend would open one of its own, and the record could not tell which "
    "bytes the model saw. Send the image as a data: URL."
)
_NOT_UTF8 = "An image_url names an http(s) address in a body that is not UTF-8: send it in UTF-8."


def _too_many(count: int) -> str:
    return (
        f"The image_urls name {count} different http(s) addresses; at most {MAX_ADDRESSES} are fetched for "
        "one request. Name fewer, or send images as data: URLs."
    )


def _too_large() -> str:
    return (
        f"The images behind the http(s) addresses are more than {MAX_REQUEST_BYTES >> 20} MiB as data: URLs, "
        "the most that is put into one request. Name fewer or smaller ones, or send images as data: URLs."
    )


def _refused(message: str) -> Answer:
    return invalid_request(400, message, code="remote_image", param="messages")
