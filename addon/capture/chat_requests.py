"""A chat request on its way to the backend: held for its record, and asked for more than the harness did."""

from collections.abc import Sequence

from mitmproxy.http import Headers as HttpHeaders
from mitmproxy.http import HTTPFlow

from turnstile.addon.backends.asking import Asking, ask_chat, ask_chat_live
from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.answers import Answer, give, internal_error
from turnstile.addon.capture.content_encoding import recordable
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.keys import Fields, recorded_headers
from turnstile.addon.capture.known_routing import resent_by, settled
from turnstile.addon.capture.live_choice import may_stream_live
from turnstile.addon.capture.recording import record_early
from turnstile.addon.capture.remote_images import named_images
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.routing import routing_asked
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_own_error
from turnstile.addon.capture.told_prompts import told_context, told_prompt
from turnstile.addon.capture.trajectory_limit import room_for_answer
from turnstile.addon.tracelog.records import Splice, content_decoded, in_order, spliced


async def begin(session: Session, flow: HTTPFlow, route: Route, fields: Fields) -> None:
    """Holds the exchange from now on, and makes its request ready; `fields` are its headers as they came."""
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
    try:
        body = content_decoded(held.request, held.request_headers)
    except ValueError:
        return
    images = await _images(session, held, body)
    if isinstance(images, Answer):
        await _refuse(session, held, images)
        return
    if images:  # at once: whatever fails from here on, the backend gets no address to fetch from
        held.images = images
        _edit(held, body, images)
    facts = backend.known or await backend.facts(request.headers.get("authorization"))
    held.resent = resent_by(session, held.route, body, facts)
    prompt = await told_prompt(session, held, body, facts)
    held.resent = settled(session, held.resent, prompt)
    context = await told_context(session, held, facts)
    room = room_for_answer(session, held, body, context, prompt)
    if isinstance(room, Answer):
        await _refuse(session, held, room)
        return
    held.other_fields = room.fields
    try:
        asking = _asking(session, held, body, facts, request.headers)
    except AskingError:
        return
    _edit(held, body, asking.splices, images)
    held.asking = asking


async def _images(session: Session, held: InFlight, body: bytes) -> tuple[Splice, ...] | Answer:
    """The edits that put in what images the request names by a place, or why it goes no further."""
    try:
        named = named_images(body)
        return await session.images.splices(named, held.route.group_id, held.route.rollout_id)
    except Exception as error:
        held.note(note_own_error(session, "putting images into a request", error))
        return internal_error("putting images into the request")


def _edit(held: InFlight, body: bytes, *edits: Sequence[Splice]) -> None:
    held.splices = in_order(*edits)
    held.flow.request.headers.pop("content-encoding", None)
    held.flow.request.content = spliced(body, held.splices)


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
    held.splices = ()  # nothing is forwarded
    await record_early(session, held, "refused", answer.content["error"]["message"])
