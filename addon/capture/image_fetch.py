"""Fetches one image over HTTP, from hosts that are named and addresses that may be reached.

Blocks: call it on a thread. Proxies that the environment names are not used, redirects are held against the
same list, and the address is looked at that the connection goes to, not one that a second look-up gives.
"""

import http.client
import io
import socket
import ssl
import string
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from turnstile.addon.capture.image_hosts import ImageHosts

MAX_BYTES = 32 << 20
TIMEOUT_S = 20.0  # for all of it; only the resolver takes its own time to look a name up
MAX_REDIRECTS = 5
_CHUNK = 1 << 16
_TLS_RECORD = 1 << 14
_REDIRECTS = (301, 302, 303, 307, 308)


class ImageNotFetched(Exception):
    """The image cannot be had; the message says of which host and why, and what to do."""


class HostNotNamed(ImageNotFetched):
    """The host is none of those that images may be fetched from."""


class NoRoom(ImageNotFetched):
    """The images of one request are more bytes than they may be."""


class Room:
    """Bytes that are left to images which are fetched at the same time."""

    def __init__(self, size: int) -> None:
        self._left, self._lock = size, threading.Lock()

    def take(self, size: int) -> None:
        """Raises NoRoom when so many are not left, and from then on."""
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise NoRoom


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an address answered."""

    data: bytes
    content_type: str  # as it said; "" for nothing


def fetch_image(url: str, hosts: ImageHosts, room: Room) -> Fetched:
    """The image at `url`, whose bytes take `room`. Raises ImageNotFetched."""
    deadline = time.monotonic() + TIMEOUT_S
    for _ in range(MAX_REDIRECTS + 1):
        parts = _checked(url, hosts)
        try:
            answer = _asked(parts, hosts, room, deadline)
        except ImageNotFetched:
            raise
        except Exception as error:  # whatever a host answers, or is called
            raise ImageNotFetched(f"{parts.hostname} gave no image: {_reason(error)}") from error
        if isinstance(answer, Fetched):
            return answer
        url = _led_to(url, answer)
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


def _led_to(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise ImageNotFetched(f"{urlsplit(url).hostname} redirected to a malformed address") from error


def _asked(parts: SplitResult, hosts: ImageHosts, room: Room, deadline: float) -> Fetched | str:
    """The image, or where it is said to be."""
    connection = _Connection(parts, hosts, deadline)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = quote(target, safe=string.punctuation)  # only what a request line cannot hold
    try:
        connection.request("GET", target, headers={"Accept": "image/*", "User-Agent": "turnstile"})
        with connection.getresponse() as response:
            location = response.headers.get("location")
            if response.status in _REDIRECTS and location:
                return quote(location.encode("latin-1"), safe=string.punctuation)  # http.client reads Latin-1
            if response.status != 200:
                raise ImageNotFetched(f"{parts.hostname} answered {response.status}, expected 200")
            data = _read(response, parts.hostname, room)
            return Fetched(data, response.headers.get("content-type") or "")
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, host: str | None, room: Room) -> bytes:
    chunks, size = list[bytes](), 0
    while chunk := response.read1(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        room.take(len(chunk))
        if size > MAX_BYTES:
            raise ImageNotFetched(f"{host} sent more than {MAX_BYTES >> 20} MiB for an image")
    if response.length:
        raise ImageNotFetched(f"{host} broke off {response.length} bytes before the end")
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
        sock = self._connected(allowed)
        if self._is_tls:
            _take_time(sock, self._deadline)
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self.host)
        self.sock = cast(socket.socket, _TimedSocket(sock, self._deadline))

    def _connected(self, allowed: Sequence[Any]) -> socket.socket:
        """`allowed` are rows of getaddrinfo."""
        problem: OSError = TimeoutError("no address")
        for family, kind, protocol, _, address in allowed:
            sock = socket.socket(family, kind, protocol)
            try:
                _take_time(sock, self._deadline)
                sock.connect(address)
            except OSError as error:
                sock.close()
                problem = error
            else:
                return sock
        raise problem


class _TimedSocket:
    """What http.client uses of a socket; every wait ends at the deadline, however little each one brings."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, data: bytes) -> None:
        for at in range(0, len(data), _TLS_RECORD):  # the time to send more would begin anew with each record
            _take_time(self._sock, self._deadline)
            self._sock.sendall(data[at : at + _TLS_RECORD])

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReads(self._sock, self._deadline))

    def close(self) -> None:
        self._sock.close()


class _TimedReads(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline
        self._file = sock.makefile("rb", buffering=0)  # open when the socket is closed early

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        _take_time(self._sock, self._deadline)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _take_time(sock: socket.socket, deadline: float) -> None:
    """Lets the next wait end at the deadline; raises TimeoutError when it is past."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(left_s)


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else type(error).__name__
