"""Sends a request once more, without the start of the routed experts that the backend refused.

A template may drop what it wrote before (thinking, say), and the prompt is shorter than the known prefix.
SGLang refuses such a start before it generates anything, so nothing is sampled twice, and the harness never
learns of it.
"""

from mitmproxy.http import Response

from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.backends.refusals import refuses_start
from turnstile.addon.capture.answers import backend_failed, give, not_capturing
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.recording import record
from turnstile.addon.capture.sending_apart import sent_apart
from turnstile.addon.capture.session import Session
from turnstile.addon.tracelog.records import content_decoded, in_order, spliced


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
    outcome = await sent_apart(session.settings.backend_url, flow.request, content)
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
