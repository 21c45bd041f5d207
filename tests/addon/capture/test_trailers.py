"""Requests and replies with trailers, through the real mitmdump: they are dropped, nothing else is."""

import json
import socket
import ssl
from collections.abc import Iterator

import pytest
from h2.connection import H2Connection
from h2.events import ResponseReceived

from tests.support.backend import EVENT_STREAM, Backend, Reply, chat_reply, chat_stream
from tests.support.mitmdump import Proxy, running_mitmdump

JSON = {"content-type": "application/json"}
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}'
STREAMING = b'{"model": "m", "messages": [], "stream": true}'
TRAILERS = b"x-checksum: 1\r\nx-more: 2\r\n"


@pytest.fixture(scope="module")
def tls_proxy(shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Its keys are long enough for TLS."""
    log = tmp_path_factory.mktemp("tls") / "log"
    with running_mitmdump(shared_backend.url, log, key_bits=2048) as proxy:
        yield proxy


def over_http2(proxy: Proxy, path: str) -> dict[bytes, bytes]:
    """The head of the answer to a request with trailers over HTTP/2, which needs TLS."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    names = {":method": "POST", ":scheme": "https", ":authority": "h", ":path": path}
    with (
        socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as harness,
    ):
        connection = H2Connection()
        connection.initiate_connection()
        connection.send_headers(1, list(names.items()))
        connection.send_data(1, BODY)
        connection.send_headers(1, [("x-checksum", "1")], end_stream=True)
        harness.sendall(connection.data_to_send())
        while True:
            for event in connection.receive_data(harness.recv(65536)):
                if isinstance(event, ResponseReceived):
                    return dict(event.headers or [])
            harness.sendall(connection.data_to_send())


def in_chunks(path: str) -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:9], BODY[9:])) + b"0\r\n"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_request_with_trailers_is_answered_and_its_connection_kept(
    proxy: Proxy, backend: Backend, path: str
) -> None:
    backend.script = lambda received: Reply(b"{}")
    request = in_chunks(f"/group/trailed-twice{path}") + TRAILERS + b"\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as harness:
        answers = harness.makefile("rb")
        for _ in range(2):
            harness.sendall(request)
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            assert list(iter(answers.readline, b"\r\n"))
            assert answers.read(2) == b"{}"
    assert [received.path for received in backend.received] == [path] * 2


def test_a_request_with_trailers_is_recorded_without_them(proxy: Proxy, backend: Backend) -> None:
    request = in_chunks("/group/trailed/v1/chat/completions") + TRAILERS + b"\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as harness:
        harness.sendall(request)
        assert harness.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    exchange, (received,) = proxy.exchange("trailed"), backend.received
    assert (exchange.outcome, exchange.error) == ("complete", None)
    assert (exchange.request, exchange.forwarded()) == (BODY, received.body)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_request_with_trailers_over_http2_is_answered(
    tls_proxy: Proxy, backend: Backend, path: str
) -> None:
    backend.script = lambda received: Reply(b"{}")
    assert over_http2(tls_proxy, f"/group/trailed-http2{path}")[b":status"] == b"200"
    assert [received.path for received in backend.received] == [path]
    tls_proxy.ask("GET", f"/v1/after{path}")
    tls_proxy.wait_for_line(f"GET .*/v1/after{path}")
    assert not any("mitmproxy has crashed" in line for line in tls_proxy.lines)


def test_a_held_reply_with_trailers_is_recorded_and_handed_on(proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: Reply([chat_reply(received.json)], trailers=TRAILERS)
    for _ in range(2):
        answer = proxy.ask("POST", "/group/trailed-reply/v1/chat/completions", BODY, JSON)
        assert answer.json == json.loads(chat_reply({"model": "m"}))
    found = proxy.exchanges("trailed-reply")
    assert [(each.outcome, each.reply) for each in found] == [
        ("complete", chat_reply(received.json)) for received in backend.received
    ]


def test_a_live_stream_with_trailers_is_recorded_and_handed_on(live_proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: Reply(
        chat_stream(received.json, "4"), headers=EVENT_STREAM, trailers=TRAILERS
    )
    answer = live_proxy.ask("POST", "/group/trailed-stream/v1/chat/completions", STREAMING, JSON)
    assert answer.body == b"".join(chat_stream({"model": "m"}, "4"))
    (received,) = backend.received
    exchange = live_proxy.exchange("trailed-stream")
    assert (exchange.outcome, exchange.error) == ("complete", None)
    assert exchange.reply == b"".join(chat_stream(received.json, "4"))


def test_a_reply_with_trailers_that_is_not_captured_passes(proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: Reply([b"as it", b" is"], trailers=TRAILERS)
    assert proxy.ask("GET", "/v1/other").body == b"as it is"
