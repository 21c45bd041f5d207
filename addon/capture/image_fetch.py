"""Fetches one image over HTTP, from hosts that are named and addresses that may be reached.

Blocks: call it on a thread. Proxies that the environment names are not used, redirects are held against the
same list, and the address is looked at that the connection goes to, not one that a second look-up gives.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from turnstile.addon.capture.image_hosts import ImageHosts

MAX_BYTES = 32 << 20
TIMEOUT_S = 20.0  # for all of it
MAX_REDIRECTS = 5
_CHUNK = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)


class ImageNotFetched(Exception):
    """The image cannot be had; the message says of which host and why, and what to do."""


class HostNotNamed(ImageNotFetched):
    """The host is none of those that images may be fetched from."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an address answered."""

    data: bytes
    content_type: str  # as it said; "" for nothing


def fetch_image(url: str, hosts: ImageHosts) -> Fetched:
    """The image at `url`. Raises ImageNotFetched."""
    deadline = time.monotonic() + TIMEOUT_S
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url, hosts)
        try:
            answer = _asked(parts, hosts, deadline)
        except ImageNotFetched:
            raise
        except Exception as error:  # whatever a host answers, or is called
            raise ImageNotFetched(f"{parts.hostname} gave no image: {_reason(error)}") from error
        if isinstance(answer, Fetched):
            return answer
        url = urljoin(url, answer)
    raise ImageNotFetched(f"{urlsplit(url).hostname} was reached after more than {MAX_REDIRECTS} redirects")


def _checked(url: str, hosts: ImageHosts) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ImageNotFetched(f"the address of an image is malformed: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise HostNotNamed("an image was redirected to what is no http(s) address")
    if not hosts.allows(host):
        raise HostNotNamed(f"{host} is none of the hosts in turnstile_fetch_images")
    return parts


def _asked(parts: SplitResult, hosts: ImageHosts, deadline: float) -> Fetched | str:
    """The image, or where it is said to be."""
    connection = _Connection(parts, hosts, deadline)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET", target, headers={"Accept": "image/*", "User-Agent": "turnstile"})
        with connection.getresponse() as response:
            location = response.headers.get("location")
            if response.status in _REDIRECTS and location:
                return location
            if response.status != 200:
                raise ImageNotFetched(f"{parts.hostname} answered {response.status}, expected 200")
            data = _read(response, connection, deadline)
            return Fetched(data, response.headers.get("content-type") or "")
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, connection: "_Connection", deadline: float) -> bytes:
    chunks, size = list[bytes](), 0
    while chunk := response.read1(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise ImageNotFetched(f"{connection.host} sent more than {MAX_BYTES >> 20} MiB for an image")
        connection.take_time(deadline)
    if response.length:
        raise ImageNotFetched(f"{connection.host} broke off {response.length} bytes before the end")
    return b"".join(chunks)


class _Connection(http.client.HTTPConnection):
    """Goes to the first address of the host that may be reached."""

    def __init__(self, parts: SplitResult, hosts: ImageHosts, deadline: float) -> None:
        self._is_tls = parts.scheme.lower() == "https"
        super().__init__(parts.hostname or "", parts.port or (443 if self._is_tls else 80))
        self._hosts, self._deadline = hosts, deadline

    def connect(self) -> None:
        """Resolves once, and connects to what was looked at."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        allowed = [each for each in found if self._hosts.allows_address(str(each[4][0]))]
        if not allowed:
            raise ImageNotFetched(
                f"{self.host} leads to {found[0][4][0]}, an address inside a network; if that is meant, name "
                "the address or its network in turnstile_fetch_images too"
            )
        self.sock = self._connected(allowed)
        if self._is_tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def take_time(self, deadline: float) -> None:
        """Lets the next wait end at the deadline; raises TimeoutError when it is past."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"it took more than {TIMEOUT_S:.0f} s")
        if self.sock is not None:
            self.sock.settimeout(left_s)

    def _connected(self, allowed: Sequence[Any]) -> socket.socket:
        """`allowed` are rows of getaddrinfo."""
        problem: OSError = TimeoutError("no address")
        for family, kind, protocol, _, address in allowed:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(max(0.001, self._deadline - time.monotonic()))
                sock.connect(address)
            except OSError as error:
                sock.close()
                problem = error
            else:
                return sock
        raise problem


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else type(error).__name__
