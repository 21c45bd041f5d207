"""Two things that mitmproxy's HTTP layer does not do, by methods that are exchanged while Turnstile captures.

A reply is handed on piece by piece by a function that cannot wait. What a LiveStream holds back leaves behind
the hook `turnstile_done`, at which, as at mitmproxy's own hooks, that exchange alone stands still.

A reply that is held is gathered inside the layer, which drops it when the backend breaks off or the harness
leaves within it. All failures pass through one method; from there on the flow has what had come.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.events import Event
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers.http import HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import RequestProtocolError, ResponseData, ResponseProtocolError

from turnstile.addon.capture.live_stream import LiveStream

_hand_on: Any = getattr(HttpStream, "state_stream_response_body", None)
_fail: Any = getattr(HttpStream, "handle_protocol_error", None)


@dataclass
class TurnstileDoneHook(StartHook):  # type: ignore[no-untyped-call]
    """A stream holds something back until this hook's addons have dealt with it."""

    flow: HTTPFlow


def what_mitmproxy_changed() -> str | None:
    """Why its methods cannot be exchanged; None when they are those that Turnstile knows."""
    for name, method in (("state_stream_response_body", _hand_on), ("handle_protocol_error", _fail)):
        takes = list(inspect.signature(method).parameters) if callable(method) else None
        if takes != ["self", "event"]:
            found = "is gone" if takes is None else f"takes ({', '.join(takes)}), not (self, event)"
            return f"this mitmproxy is not one that Turnstile knows: HttpStream.{name} {found}"
    return None


def extend_http_streams() -> None:
    """From now on streams can wait, and failed exchanges keep what had come of their reply."""
    HttpStream.state_stream_response_body = _hand_on_and_wait  # type: ignore[method-assign]
    HttpStream.handle_protocol_error = _keep_and_fail  # type: ignore[assignment,method-assign]


def restore_http_streams() -> None:
    """Puts mitmproxy's own methods back."""
    if what_mitmproxy_changed() is not None:
        return
    HttpStream.state_stream_response_body = _hand_on  # type: ignore[method-assign]
    HttpStream.handle_protocol_error = _fail  # type: ignore[method-assign]


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
