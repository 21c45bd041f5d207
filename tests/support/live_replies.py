"""Live streams asked of a proxy: what the backend sends, and how the harness reads it."""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.backend import EVENT_STREAM, Received, Reply, chat_stream
from tests.support.mitmdump import Proxy

QUESTION: Any = [{"role": "user", "content": "2+2?"}]
BODY = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
JSON = {"content-type": "application/json"}
TEXTS = ("It", " is", " 4")
DONE = b"data: [DONE]\n\n"
ASKED_FOR = {
    "return_input_ids_in_sglext": True,
    "return_output_ids_in_sglext": True,
    "stream_options": {"include_usage": True},
}


def expected(*texts: str) -> bytes:
    """What the backend would send to the harness's own request."""
    return b"".join(chat_stream({"model": "m"}, *(texts or TEXTS)))


def as_stream(body: bytes | Iterable[bytes], **headers: str) -> Reply:
    return Reply(body, headers=EVENT_STREAM | {name.replace("_", "-"): headers[name] for name in headers})


def streams(*texts: str) -> Callable[[Received], Reply]:
    return lambda received: as_stream(chat_stream(received.json, *(texts or TEXTS)))


@contextlib.contextmanager
def asked(proxy: Proxy, group_id: str, body: bytes = BODY) -> Iterator[http.client.HTTPResponse]:
    """A reply whose body is still to be read, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("POST", f"/group/{group_id}/v1/chat/completions", body, JSON)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def ask(proxy: Proxy, group_id: str, body: bytes = BODY) -> bytes:
    with asked(proxy, group_id, body) as reply:
        assert reply.status == 200
        return reply.read()


def read_events(reply: http.client.HTTPResponse, count: int) -> bytes:
    """The next events, and no byte behind them."""
    found = b""
    while found.count(b"\n\n") < count:
        found += reply.read(1)
    return found
