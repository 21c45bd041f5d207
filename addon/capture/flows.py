"""A chat completion's way through the proxy: asked for more, restored, recorded, exactly once.

An exchange is in `Session.in_flight` from its request hook until its record is made, by whichever comes first
of the response hook, the error hook and the proxy's end. Whoever takes it out makes the record.
"""

from mitmproxy.flow import Error
from mitmproxy.http import Headers as HttpHeaders
from mitmproxy.http import HTTPFlow, Response

from turnstile.addon.backends.asking import Asking, ask_chat, ask_chat_live
from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.restoring import Restored, restore_chat
from turnstile.addon.capture import live_replies
from turnstile.addon.capture.admission import admit
from turnstile.addon.capture.all_rows import have_all_rows_told
from turnstile.addon.capture.answers import Answer, give, internal_error, not_recorded
from turnstile.addon.capture.asking_again import ask_again, is_refused
from turnstile.addon.capture.content_encoding import recordable
from turnstile.addon.capture.control import control_answer
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.keys import Fields, recorded_headers
from turnstile.addon.capture.known_routing import (
    leaves_rows_out,
    note_no_reply,
    note_reply,
    reply_readings,
    resent_by,
    settled,
)
from turnstile.addon.capture.live_choice import may_stream_live
from turnstile.addon.capture.live_stream import LiveStream
from turnstile.addon.capture.recording import record
from turnstile.addon.capture.remote_images import named_images
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.routing import routing_asked
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import (
    note_missing,
    note_own_error,
    note_streamed_by_others,
    note_uncaptured,
)
from turnstile.addon.capture.told_prompts import told_context, told_prompt
from turnstile.addon.capture.trajectory_limit import room_for_answer, without_room
from turnstile.addon.tracelog.records import Exchange, Outcome, content_decoded, in_order, spliced

HTTP2_RESET = "stream reset by client"  # a harness leaves one exchange and keeps its connection


async def on_request(session: Session, flow: HTTPFlow) -> None:
    """Answers the request, or makes it ready for the backend."""
    fields = flow.request.headers.fields
    route = admit(flow.request, session.settings.secret)
    if isinstance(route, Answer):
        session.counters.rejected += 1
        give(flow, route)
    elif route.kind == "control":
        give(flow, await control_answer(session, flow.request, route.target))
    elif route.kind == "chat":
        await _begin(session, flow, route, fields)
    elif route.kind == "uncaptured":
        note_uncaptured(session, route.target.partition("?")[0])
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
        return
    if held is None or (is_refused(held, flow.response) and not await ask_again(session, held)):
        return
    readings = reply_readings(session, held, flow.response)
    if leaves_rows_out(session, held, readings):
        await have_all_rows_told(session, held)
        if session.in_flight.get(flow.id) is not held:  # the harness has left, or the proxy stops
            return
    restored = _restored(session, held, flow.response)
    missing = restored.missing if isinstance(restored, Restored) else ()
    restored = without_room(session, held, flow.response) or restored
    if missing:
        note_missing(session, missing)
    if flow.response.status_code in (502, 504):
        session.backend.was_away()  # says a gateway in front of it

    def complete() -> Exchange:
        # the harness may leave while the record waits for room
        delivered = flow.client_conn.connected and not isinstance(restored, Answer)
        return held.ended("complete", missing=missing, delivered=delivered)

    problem = await record(session, held, "complete", complete)
    note_reply(session, held, flow.response, readings, is_recorded=problem is None and not missing)
    if problem is not None and session.settings.on_log_error == "fail":
        give(flow, not_recorded(problem))
    elif isinstance(restored, Answer):
        give(flow, restored)
    elif restored is not None:
        _hand_on(flow.response, restored)


def refuse_reply(flow: HTTPFlow, problem: str) -> None:
    """The harness gets no reply that is not recorded; of a stream, not its end."""
    stream = flow.response.stream if flow.response else False
    if isinstance(stream, LiveStream):
        live_replies.refuse_end(flow, stream, problem)
    else:
        give(flow, not_recorded(problem))


async def on_error(session: Session, flow: HTTPFlow) -> None:
    """Records an exchange that came to no whole reply: the harness left, or the backend failed."""
    held = session.in_flight.get(flow.id)
    if held is None:
        return
    reason = flow.error.msg if flow.error else ""
    if reason == Error.KILLED_MESSAGE:
        await _record_early(session, held, "interrupted", reason)
    elif not flow.client_conn.connected or reason.startswith(HTTP2_RESET):
        await _record_early(session, held, "client_left", reason)
    else:
        session.backend.was_away()
        # what follows is the backend's own bytes
        await _record_early(session, held, "backend_failed", reason.partition(": b'")[0])


async def _begin(session: Session, flow: HTTPFlow, route: Route, fields: Fields) -> None:
    headers = recorded_headers(fields, session.settings.redacted_headers, session.settings.secret)
    request, request_headers = recordable(flow.request.raw_content or b"", headers)
    held = InFlight(
        exchange_id=session.recorder.next_exchange_id(),
        flow=flow,
        route=route,
        redacted_headers=session.settings.redacted_headers,
        request_headers=request_headers,
        request=request,
    )
    session.in_flight[flow.id] = held
    flow.request.headers["accept-encoding"] = "identity"
    try:
        await _ask(session, held)
    except Exception as error:  # forwarded as it came
        held.note(note_own_error(session, "adding fields to a request", error))


async def _ask(session: Session, held: InFlight) -> None:
    """Adds to the request what capture needs; a body that is no readable JSON object stays as it is."""
    request, backend = held.flow.request, session.backend
    facts = backend.known or await backend.facts(request.headers.get("authorization"))
    try:
        body = content_decoded(held.request, held.request_headers)
    except ValueError:
        return
    images = await session.images.splices(named_images(body), held.route.group_id, held.route.rollout_id)
    if isinstance(images, Answer):
        await _refuse(session, held, images)
        return
    held.resent = resent_by(session, held.route, body, facts)
    prompt = await told_prompt(session, held, body, facts)
    held.resent = settled(session, held.resent, prompt)
    context = await told_context(session, held, facts)
    room = room_for_answer(session, held, body, context, prompt)
    if isinstance(room, Answer):
        await _refuse(session, held, room)
        return
    held.images, held.other_fields = images, room.fields
    try:
        asking = _asking(session, held, body, facts, request.headers)
    except AskingError:
        if not images:
            return
        asking = None
    splices = in_order(asking.splices if asking else (), images)
    request.headers.pop("content-encoding", None)
    request.content = spliced(body, splices)
    held.asking, held.splices = asking, splices


def _asking(
    session: Session, held: InFlight, body: bytes, facts: BackendFacts | None, headers: HttpHeaders
) -> Asking:
    moe = routing_asked(session.settings.moe, facts)
    start = held.resent.start if held.resent is not None else 0
    if may_stream_live(session, facts):
        fields = recorded_headers(headers.fields, ())
        return ask_chat_live(body, facts, moe=moe, routing_start=start, headers=fields, set=held.other_fields)
    return ask_chat(body, facts, moe=moe, routing_start=start, set=held.other_fields)


async def _refuse(session: Session, held: InFlight, answer: Answer) -> None:
    give(held.flow, answer)
    await _record_early(session, held, "refused", answer.content["error"]["message"])


def _restored(session: Session, held: InFlight, response: Response) -> Restored | Answer | None:
    """What the harness gets instead of `response`; None: the response as it came."""
    if response.stream:
        held.note(note_streamed_by_others(session))
        return None
    if held.asking is None:
        return None
    try:
        return restore_chat(response.content or b"", response.status_code, held.asking)
    except Exception as error:
        held.note(note_own_error(session, "restoring a reply", error))
        streams = held.asking.harness.wants_stream and response.status_code == 200
        return internal_error("making a stream of the reply") if streams else None


def _hand_on(response: Response, restored: Restored) -> None:
    if restored.body is response.raw_content:
        return
    headers = response.headers
    headers.pop("content-encoding", None)
    headers.pop("transfer-encoding", None)  # the whole body is here: content-length tells more
    if restored.content_type is not None:
        headers["content-type"] = restored.content_type
    response.content = restored.body


async def _record_early(session: Session, held: InFlight, outcome: Outcome, error: str) -> None:
    note_no_reply(session, held)
    delivered = outcome in ("backend_failed", "refused")  # of these the harness is told
    await record(session, held, outcome, lambda: held.ended(outcome, delivered=delivered, error=error))
