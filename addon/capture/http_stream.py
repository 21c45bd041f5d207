"""Three things that mitmproxy's HTTP layer does not do, by functions exchanged while Turnstile captures.

A reply is handed on piece by piece by a function that cannot wait. What a LiveStream holds back leaves behind
the hook `turnstile_done`, at which, as at mitmproxy's own hooks, that exchange alone stands still.

A reply that is held is gathered inside the layer, which drops it when the backend breaks off or the harness
leaves within it. All failures pass through one method; from there on the flow has what had come.

A chunked HTTP/1 body may have trailers, over which the layer fails so that neither side is ever answered.
They are dropped, as RFC 9110 (6.5.1) allows: the reader of the body is one that does not tell of them.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.http import HttpStream, SendHttp, _http1
from mitmproxy.proxy.layers.http._events import RequestProtocolError, ResponseData, ResponseProtocolError

from turnstile.addon.capture.live_stream import LiveStream

_hand_on: Any = getattr(HttpStream, "state_stream_response_body", None)
_fail: Any = getattr(HttpStream, "handle_protocol_error", None)
_body_reader: Any = getattr(_http1, "make_body_reader", None)


@dataclass
class TurnstileDoneHook(StartHook):  # type: ignore[no-untyped-call]
    """A stream holds something back until this hook's addons have dealt with it."""

    flow: HTTPFlow


def what_mitmproxy_changed() -> str | None:
    """Why its methods cannot be exchanged; None when they are those that Turnstile knows."""
    for name, function, expected in (
        ("HttpStream.state_stream_response_body", _hand_on, ["self", "event"]),
        ("HttpStream.handle_protocol_error", _fail, ["self", "event"]),
        ("make_body_reader", _body_reader, ["expected_size"]),
    ):
        takes = list(inspect.signature(function).parameters) if callable(function) else None
        if takes != expected:
            found = "is gone" if takes is None else f"takes ({', '.join(takes)}), not ({', '.join(expected)})"
            return f"this mitmproxy is not one that Turnstile knows: {name} {found}"
    return None


def extend_http_streams() -> None:
    """From now on streams can wait, failed exchanges keep what came of a reply, and trailers do no harm."""
    _exchange(_hand_on_and_wait, _keep_and_fail, _reader_without_trailers)


def restore_http_streams() -> None:
    """Puts mitmproxy's own functions back."""
    if what_mitmproxy_changed() is None:
        _exchange(_hand_on, _fail, _body_reader)


def _exchange(hand_on: Any, fail: Any, body_reader: Any) -> None:
    HttpStream.state_stream_response_body = hand_on  # type: ignore[method-assign]
    HttpStream.handle_protocol_error = fail  # type: ignore[method-assign]
    _http1.make_body_reader = body_reader


def _hand_on_and_wait(stream: HttpStream, event: Event) -> CommandGenerator[None]:
    yield from _hand_on(stream, event)
    live = stream.flow.response.stream if stream.flow.response else None
    if isinstance(live, LiveStream) and live.held_back:
        yield TurnstileDoneHook(stream.flow)
        released = live.released()
        if released:  # an empty piece would end the harness's body
            yield SendHttp(ResponseData(stream.stream_id, released), stream.context.client)


def _keep_and_fail(
    stream: HttpStream, event: RequestProtocolError | ResponseProtocolError
) -> CommandGenerator[None]:
    response = stream.flow.response
    if response is not None and response.raw_content is None and not response.stream:
        response.data.content = bytes(stream.response_body_buf)
    yield from _fail(stream, event)


def _reader_without_trailers(expected_size: int | None) -> Any:
    reader = _body_reader(expected_size)
    return _WithoutTrailers(reader) if expected_size is None else reader  # only chunks have trailers


class _WithoutTrailers:
    """A reader of h11's, whose last event has trailers as its headers."""

    def __init__(self, reader: Any) -> None:
        self._reader, self.read_eof = reader, reader.read_eof

    def __call__(self, buffer: Any) -> Any:
        event = self._reader(buffer)
        return type(event)() if getattr(event, "headers", None) else event
