"""A chat completion's way through the proxy: asked for more, restored, recorded, exactly once.

An exchange is in `Session.in_flight` from its request hook until its record is made, by whichever comes first
of the response hook, the error hook and the proxy's end. Whoever takes it out makes the record.
"""

from mitmproxy.flow import Error
from mitmproxy.http import HTTPFlow

from turnstile.addon.capture import held_replies, live_replies
from turnstile.addon.capture.admission import admit
from turnstile.addon.capture.answers import Answer, give, internal_error, not_recorded
from turnstile.addon.capture.chat_requests import begin
from turnstile.addon.capture.control import control_answer
from turnstile.addon.capture.live_stream import LiveStream
from turnstile.addon.capture.recording import record, record_early
from turnstile.addon.capture.routes import endpoint
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_uncaptured
from turnstile.addon.tracelog.records import Outcome

HTTP2_RESET = "stream reset by client"  # a harness leaves one exchange and keeps its connection


async def on_request(session: Session, flow: HTTPFlow) -> None:
    """Answers the request, or makes it ready for the backend."""
    fields = flow.request.headers.fields
    flow.request.trailers = None  # of HTTP/2: mitmproxy's HTTP/1 fails over them, see http_stream
    route = admit(flow.request, session.settings.secret)
    if isinstance(route, Answer):
        session.counters.rejected += 1
        give(flow, route)
    elif route.kind == "control":
        give(flow, await control_answer(session, flow.request, route.target))
    elif route.kind == "chat":
        await begin(session, flow, route, fields)
    elif route.kind == "uncaptured":
        note_uncaptured(session, endpoint(route))
    else:
        session.counters.passed_through += 1


def on_response_headers(session: Session, flow: HTTPFlow) -> None:
    """Decides whether the reply goes on as it comes; else it is held until it is whole."""
    held = session.in_flight.get(flow.id)
    if flow.response is None:
        return
    if held is None:
        flow.response.stream = True
    elif live_replies.is_live(held, flow.response):
        live_replies.begin(session, held, flow.response)


async def on_response(session: Session, flow: HTTPFlow) -> None:
    """Records the exchange, then lets the restored reply go; or what is left of a stream."""
    held = session.in_flight.get(flow.id)
    if flow.response is None:
        return
    if isinstance(flow.response.stream, LiveStream):
        if held is not None:
            await live_replies.record_stream(session, held, flow.response.stream)
        flow.response.data.content = flow.response.stream.reply  # for mitmproxy's own views and files
    elif held is not None:
        await held_replies.record_reply(session, held)


async def on_error(session: Session, flow: HTTPFlow) -> None:
    """Records an exchange that came to no whole reply: the harness left, or the backend failed."""
    held = session.in_flight.get(flow.id)
    if held is None:
        return
    outcome, reason = _how_it_ended(flow)
    if outcome == "backend_failed":
        session.backend.was_away()
    await record_early(session, held, outcome, reason)


async def on_own_error(session: Session, flow: HTTPFlow, problem: str) -> None:
    """After a failure of ours in one of the two hooks above: the record, if it is not made yet.

    Then the harness is refused its reply, where `turnstile_on_log_error` wants that.
    """
    held = session.in_flight.get(flow.id)
    outcome, reason = _how_it_ended(flow)
    refuses = session.settings.on_log_error == "fail" and outcome == "complete"
    lost = None
    if held is not None:
        held.note(problem)
        delivered = outcome in ("complete", "backend_failed") and not refuses and flow.client_conn.connected
        lost = await record(
            session, held, outcome, lambda: held.ended(outcome, delivered=delivered, error=reason)
        )
    if refuses:
        _refuse_reply(flow, not_recorded(lost) if lost else internal_error("dealing with the reply"))


def _refuse_reply(flow: HTTPFlow, answer: Answer) -> None:
    """The harness gets the answer instead of its reply; of a stream, not its end."""
    stream = flow.response.stream if flow.response else False
    if isinstance(stream, LiveStream):
        live_replies.refuse_end(flow, stream, answer)
    else:
        give(flow, answer)


def _how_it_ended(flow: HTTPFlow) -> tuple[Outcome, str]:
    """The outcome that mitmproxy's error tells, and the reason in words."""
    if flow.error is None:
        return "complete", ""
    reason = flow.error.msg
    if reason == Error.KILLED_MESSAGE:
        return "interrupted", reason
    if not flow.client_conn.connected or reason.startswith(HTTP2_RESET):
        return "client_left", reason
    return "backend_failed", reason.partition(": b'")[0]  # what follows is the backend's own bytes
