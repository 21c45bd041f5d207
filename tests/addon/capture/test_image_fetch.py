import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.image_server import ImageServer
from turnstile.addon.capture import image_fetch
from turnstile.addon.capture.image_fetch import (
    Fetched,
    HostNotNamed,
    ImageNotFetched,
    NoRoom,
    Room,
    fetch_image,
)
from turnstile.addon.capture.image_hosts import ImageHosts, parse_hosts

HERE = parse_hosts("127.0.0.1")


@pytest.fixture
def server() -> Iterator[ImageServer]:
    with ImageServer().running() as running:
        yield running


def fetched(url: str, hosts: ImageHosts) -> Fetched:
    return fetch_image(url, hosts, Room(1 << 30))


def problem(url: str, hosts: str = "127.0.0.1") -> str:
    with pytest.raises(ImageNotFetched) as caught:
        fetched(url, parse_hosts(hosts))
    return str(caught.value)


def test_the_bytes_and_their_type_are_those_of_the_answer(server: ImageServer) -> None:
    url = server.has("/a.png?b=1", b"bytes", content_type="image/png")
    assert fetched(url, HERE) == Fetched(b"bytes", "image/png")
    assert fetched(server.has("/b", b""), HERE) == Fetched(b"", "")


def test_a_redirect_is_followed_to_a_host_that_is_named(server: ImageServer) -> None:
    server.has("/a.png", b"bytes")
    for location in ("/a.png", server.url + "/a.png"):
        assert fetched(server.has("/old", status=302, location=location), HERE).data == b"bytes"


@pytest.mark.parametrize(
    "location", ["http://localhost/a", "http://elsewhere.example/a", "file:///etc/passwd"]
)
def test_a_redirect_to_another_host_is_not_followed(server: ImageServer, location: str) -> None:
    with pytest.raises(HostNotNamed):
        fetched(server.has("/old", status=302, location=location), HERE)
    assert server.asked == ["/old"]


@pytest.mark.parametrize("location", ["http://[bad", "//[bad"])
def test_a_redirect_to_what_is_no_address_is_not_followed(server: ImageServer, location: str) -> None:
    said = problem(server.has("/old", status=302, location=location), "127.0.0.1")
    assert said == "127.0.0.1 redirected to a malformed address"


def test_redirects_without_end_are_given_up(server: ImageServer) -> None:
    assert "more than 5 redirects" in problem(server.has("/loop", status=302, location="/loop"))
    assert len(server.asked) == 6


def test_a_host_that_is_not_named_is_not_asked() -> None:
    assert (
        problem("http://10.0.0.1/a", "a.example") == "10.0.0.1 is none of the hosts in turnstile_fetch_images"
    )


def test_a_name_that_leads_inside_is_not_connected_to(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(server.url.rpartition(":")[2])

    def resolved(host: str, *_: Any, **__: Any) -> list[Any]:
        assert host == "rebound.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(image_fetch.socket, "getaddrinfo", resolved)
    url = f"http://rebound.example:{port}/a"
    server.has("/a", b"bytes")
    assert "leads to 127.0.0.1, an address inside a network" in problem(url, "rebound.example")
    assert server.asked == []
    assert fetched(url, parse_hosts("rebound.example,127.0.0.1")).data == b"bytes"


def test_other_answers_are_told(server: ImageServer) -> None:
    assert problem(server.url + "/absent") == "127.0.0.1 answered 404, expected 200"
    assert problem(server.has("/moved", status=302)) == "127.0.0.1 answered 302, expected 200"


def test_a_file_that_is_too_large_is_not_read_to_its_end(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_fetch, "MAX_BYTES", 1 << 20)
    assert "sent more than 1 MiB for an image" in problem(server.has("/large", b"x" * (1 << 21)))


def test_a_file_that_is_broken_off_is_none(server: ImageServer) -> None:
    assert (
        "IncompleteRead" in (found := problem(server.has("/cut", b"abc", content_length="9")))
        or "broke off" in found
    )


def test_a_host_that_does_not_answer_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_fetch, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "127.0.0.1 gave no image: timed out" in problem(
            f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        )


@contextlib.contextmanager
def dripping(at_once: bytes, slowly: bytes) -> Iterator[str]:
    """The address of a server that sends byte after byte, and ends when nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(1 << 16)
                peer.sendall(at_once)
                for at in range(len(slowly)):
                    peer.sendall(slowly[at : at + 1])
                    threading.Event().wait(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a"
        thread.join()


@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
@pytest.mark.parametrize("at_once", [b"\r\n", b""])
def test_a_host_that_drips_is_given_up(
    connection: bytes, at_once: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_fetch, "TIMEOUT_S", 0.2)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\nConnection: " + connection + b"\r\nX: "
    with dripping(head + at_once, b"x" * 200 if at_once else b"x" * 200 + b"\r\n\r\n" + b"x" * 200) as url:
        assert "127.0.0.1 gave no image: timed out" in problem(url)


def test_images_share_their_room(server: ImageServer) -> None:
    room, url = Room(1500), server.has("/a", bytes(1000))
    assert len(fetch_image(url, HERE, room).data) == 1000
    with pytest.raises(NoRoom):
        fetch_image(url, HERE, room)


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("/ü.png", "/%C3%BC.png"),
        ("/a b.png?c=d e&f=ü", "/a%20b.png?c=d%20e&f=%C3%BC"),
        ("/%20;a=b,c?d=%3D&e=[f]|'g'", "/%20;a=b,c?d=%3D&e=[f]|'g'"),
    ],
)
def test_a_path_is_quoted_as_far_as_it_has_to_be(server: ImageServer, named: str, asked: str) -> None:
    server.has(asked, b"bytes")
    assert fetched(server.url + named, HERE).data == b"bytes"
    moved = server.has("/old", status=302, location=named.encode().decode("latin-1"))
    assert fetched(moved, HERE).data == b"bytes"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/a", "http://127.0.0.1:99999/a", "http://[::/a", "http:///a"]
)
def test_an_address_that_leads_nowhere_is_told(url: str) -> None:
    assert problem(url)
