"""Sends a request once more, without the start of the routed experts that the backend refused.

A template may drop what it wrote before (thinking, say), and the prompt is shorter than the known prefix.
SGLang refuses such a start before it generates anything, so nothing is sampled twice, and the harness never
learns of it. mitmproxy sends a request once, so this one goes out on a connection of its own, in a thread of
its own: it lasts as long as the generation, and must not hold up the proxy's end.
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

from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.backends.refusals import refuses_start
from turnstile.addon.capture.answers import backend_failed, give, not_capturing
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.recording import record
from turnstile.addon.capture.session import Session
from turnstile.addon.tracelog.records import content_decoded, in_order, spliced

TIMEOUT_S = 86_400.0  # between two packets; `defaults` gives mitmproxy the same
_OF_THE_BODY = frozenset({b"content-length", b"transfer-encoding"})


def is_refused(held: InFlight, response: Response) -> bool:
    """Whether the backend wants the request without what capture had added to it.

    A reply whose content-encoding cannot be undone says nothing of the kind.
    """
    if response.stream or held.asking is None:
        return False
    try:
        return refuses_start(held.reply_content(), response.status_code, held.asking)
    except ValueError:
        return False


async def ask_again(session: Session, held: InFlight) -> bool:
    """Asks for all rows; the exchange is then that request and its reply. False when there is no reply.

    Until it is there the exchange stays the refused one. Where none comes, the exchange is recorded and the
    harness answered.
    """
    if held.resent is not None:
        session.prefixes.refused(held.resent)
    flow, body = held.flow, content_decoded(held.request, held.request_headers)
    asking = ask_chat(body, session.backend.known, moe="full", set=held.other_fields)
    splices = in_order(asking.splices, held.images)
    content = spliced(body, splices)
    outcome = await _in_a_thread(session.settings.backend_url, flow.request, content)
    if session.in_flight.get(flow.id) is not held:
        give(flow, not_capturing("it has stopped"))
        return False
    held.asking, held.splices, flow.request.content = asking, splices, content
    if isinstance(outcome, Response):
        flow.response = outcome
        return True
    problem = str(outcome) or type(outcome).__name__
    flow.response = None
    session.backend.was_away()
    await record(session, held, "backend_failed", lambda: held.ended("backend_failed", error=problem))
    give(flow, backend_failed(problem))
    return False


async def _in_a_thread(url: str, request: Request, content: bytes) -> Response | Exception:
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

    threading.Thread(target=send, name="turnstile-asking-again", daemon=True).start()
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
