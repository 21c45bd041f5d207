"""Sends a harness's request to the backend with another body, beside mitmproxy.

mitmproxy sends a request once. So this goes out on a connection of its own, in a thread of its own: it lasts
as long as the generation, and must not hold up the proxy's end.
"""

import asyncio
import contextlib
import http.client
import string
import threading
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from mitmproxy.http import Headers, Request, Response

TIMEOUT_S = 86_400.0  # between two packets; `defaults` gives mitmproxy the same
_OF_THE_BODY = frozenset({b"content-length", b"transfer-encoding"})


async def sent_apart(url: str, request: Request, content: bytes) -> Response | Exception:
    """The backend's reply to `request` with another body; or why there is none."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Response | Exception] = loop.create_future()

    def send() -> None:
        outcome: Response | Exception
        try:
            outcome = _sent(url, request, content)
        except Exception as error:  # whatever it is, the harness waits
            outcome = error
        with contextlib.suppress(RuntimeError):  # the proxy has ended
            loop.call_soon_threadsafe(_set_unless_done, answered, outcome)

    threading.Thread(target=send, name="turnstile-sending-apart", daemon=True).start()
    return await answered


def _set_unless_done[T](future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _sent(url: str, request: Request, content: bytes) -> Response:
    target = urlsplit(url)
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    connection = kind(target.hostname or "", target.port, timeout=TIMEOUT_S)
    path = quote(request.data.path, safe=string.punctuation)  # only what is no ASCII
    try:
        connection.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in _fields(request, target.netloc, content):
            connection.putheader(name, value)
        connection.endheaders(content)
        answer, started_at = connection.getresponse(), time.time()
        return _as_response(answer, answer.read(), started_at)
    finally:
        connection.close()


def _fields(request: Request, netloc: str, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The headers as they were forwarded, with those that this body needs."""
    if "host" not in request.headers:  # HTTP/2 has it elsewhere
        yield b"Host", (request.host_header or netloc).encode()
    yield from (field for field in request.headers.fields if field[0].lower() not in _OF_THE_BODY)
    yield b"Content-Length", b"%d" % len(content)


def _as_response(answer: http.client.HTTPResponse, content: bytes, started_at: float) -> Response:
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.getheaders()]
    return Response(
        http_version=b"HTTP/1.1",
        status_code=answer.status,
        reason=answer.reason.encode("latin-1"),
        headers=Headers(fields),
        content=content,
        trailers=None,
        timestamp_start=started_at,
        timestamp_end=time.time(),
    )
