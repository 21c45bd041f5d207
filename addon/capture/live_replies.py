"""A reply that is handed on as it comes: begun with its head, recorded with [DONE] or at its end.

Live is what the backend was asked to stream. So is a stream that answers a request which went out as it came,
because Turnstile could not read it: nothing was added there.
"""

import json

from mitmproxy.http import HTTPFlow, Response

from turnstile.addon.backends.asking import Asking, Harness
from turnstile.addon.backends.live import LiveRestorer
from turnstile.addon.capture.answers import Answer, not_recorded
from turnstile.addon.capture.content_encoding import stream_decoder, without_encoding
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.live_choice import fall_back
from turnstile.addon.capture.live_stream import LiveStream
from turnstile.addon.capture.recording import record
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_behind_done, note_missing_in_stream, note_own_error
from turnstile.addon.tracelog.records import Exchange

UNTOUCHED = Asking((), Harness(wants_stream=True, include_usage=True))


def is_live(held: InFlight, response: Response) -> bool:
    """Whether the reply that begins is a stream to hand on; errors and whole answers are not."""
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    asked_live = held.asking is None or held.asking.live
    return asked_live and response.status_code == 200 and content_type == "text/event-stream"


def begin(session: Session, held: InFlight, response: Response) -> None:
    """Sees to it that the harness gets the reply piece by piece."""
    held.reply_headers = held.recorded(response.headers)
    decoder = restorer = None
    try:
        decoder = stream_decoder(held.reply_headers)
        restorer = LiveRestorer(held.asking or UNTOUCHED)
    except ValueError as error:
        held.note(f"the stream passed untouched: {error}")
    except Exception as error:
        held.note(note_own_error(session, "beginning a stream", error))
    if decoder is not None:
        held.reply_headers = without_encoding(held.reply_headers)
        del response.headers["content-encoding"]
    if "content-length" in response.headers and not (decoder is restorer is None):
        _without_length(held.flow, response)
    held.stream = response.stream = LiveStream(
        started_at=held.flow.request.timestamp_start,
        decoder=decoder,
        restorer=restorer,
        at_fault=lambda error: held.note(note_own_error(session, "handing on a stream", error)),
        behind_done=lambda: note_behind_done(session),
    )


async def record_stream(session: Session, held: InFlight, stream: LiveStream) -> None:
    """Records a stream that has told all, before the harness is told that it has."""
    problem = await record(session, held, "complete", lambda: _complete(session, held, stream))
    if held.asking is not None and held.asking.live:
        session.weights.stream_ended(held.flow.request.headers.get("authorization"))
    if problem is not None and session.settings.on_log_error == "fail":
        refuse_end(held.flow, stream, not_recorded(problem))


def refuse_end(flow: HTTPFlow, stream: LiveStream, answer: Answer) -> None:
    """The harness has its answer but for the end, and shall not take it for one that is recorded."""
    if stream.held_back:
        error = json.dumps(answer.content).encode()
        stream.held_back = b"data: " + error + b"\n\n" + stream.held_back
    elif flow.killable:
        flow.kill()  # type: ignore[no-untyped-call]


def _without_length(flow: HTTPFlow, response: Response) -> None:
    """What is taken off makes the body shorter."""
    del response.headers["content-length"]
    if response.http_version == flow.request.http_version == "HTTP/1.1":
        response.headers["transfer-encoding"] = "chunked"  # else the connection's end is the body's


def _complete(session: Session, held: InFlight, stream: LiveStream) -> Exchange:
    missing = stream.restorer.missing if stream.restorer else ()
    if missing:
        note_missing_in_stream(session, missing)
        fall_back(session, missing)
    return held.ended("complete", missing=missing, delivered=held.flow.client_conn.connected)
