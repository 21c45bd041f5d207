"""A reply that is held until it is whole: restored, recorded, and then handed on.

One whose content-encoding cannot be undone goes on as it came. It may hold what was asked for beside what the
harness wanted; the record says why nothing was taken off.
"""

from mitmproxy.http import Response

from turnstile.addon.backends.restoring import Restored, restore_chat
from turnstile.addon.capture.all_rows import have_all_rows_told
from turnstile.addon.capture.answers import Answer, backend_failed, give, internal_error, not_recorded
from turnstile.addon.capture.asking_again import ask_again, is_refused
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.known_routing import leaves_rows_out, note_reply, reply_readings
from turnstile.addon.capture.recording import record
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import (
    note_missing,
    note_own_error,
    note_streamed_by_others,
    note_undecodable,
)
from turnstile.addon.capture.trajectory_limit import without_room
from turnstile.addon.tracelog.records import Exchange


async def record_reply(session: Session, held: InFlight) -> None:
    """Records the exchange with the reply that its flow has, and sees to it what the harness gets."""
    flow = held.flow
    if flow.response is None or (is_refused(held, flow.response) and not await ask_again(session, held)):
        return
    response = flow.response
    content = _content(session, held, response)
    readings = reply_readings(session, held, response.status_code, content)
    if leaves_rows_out(session, held, readings):
        await have_all_rows_told(session, held)
        if session.in_flight.get(flow.id) is not held:  # the harness has left, or the proxy stops
            return
    restored = _restored(session, held, response, content)
    missing = restored.missing if isinstance(restored, Restored) else ()
    restored = without_room(session, held, content) or restored
    if missing:
        note_missing(session, missing)
    if response.status_code in (502, 504):
        session.backend.was_away()  # says a gateway in front of it

    def complete() -> Exchange:
        # the harness may leave while the record waits for room
        delivered = flow.client_conn.connected and not isinstance(restored, Answer)
        return held.ended("complete", missing=missing, delivered=delivered)

    problem = await record(session, held, "complete", complete)
    note_reply(session, held, response.status_code, readings, is_recorded=problem is None and not missing)
    if content is not None and held.asking is not None:
        _hand_on(response, content, None)
    if problem is not None and session.settings.on_log_error == "fail":
        give(flow, not_recorded(problem))
    elif isinstance(restored, Answer):
        give(flow, restored)
    elif restored is not None:
        _hand_on(response, restored.body, restored.content_type)


def _content(session: Session, held: InFlight, response: Response) -> bytes | None:
    """The reply without its content-encoding; None where that cannot be told, which the record then says."""
    if response.stream:
        held.note(note_streamed_by_others(session))
        return None
    try:
        return held.reply_content()
    except ValueError as error:
        held.note(note_undecodable(session, error))
        return None


def _restored(
    session: Session, held: InFlight, response: Response, content: bytes | None
) -> Restored | Answer | None:
    """What the harness gets instead of `response`; None: the response as it came."""
    if held.asking is None or response.stream:
        return None
    streams = held.asking.harness.wants_stream and response.status_code == 200
    if content is None:
        return backend_failed("its content-encoding cannot be undone") if streams else None
    try:
        return restore_chat(content, response.status_code, held.asking)
    except Exception as error:
        held.note(note_own_error(session, "restoring a reply", error))
        return internal_error("making a stream of the reply") if streams else None


def _hand_on(response: Response, body: bytes, content_type: str | None) -> None:
    """Gives the response a body without content-encoding, and the headers for it."""
    if body is response.raw_content:
        return
    headers = response.headers
    headers.pop("content-encoding", None)
    headers.pop("transfer-encoding", None)  # the whole body is here: content-length tells more
    if content_type is not None:
        headers["content-type"] = content_type
    response.content = body
