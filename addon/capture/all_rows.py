"""Asks for all rows of routed experts once more, where a reply to a part of them leaves some out.

The backend has just computed the prompt, so that all it does is one more token. Its answer goes into the
record as it came; the compiler decides what it proves. The harness waits for it as it waits for the record,
PATIENCE_S at most.
"""

import asyncio

from mitmproxy.http import Response

from turnstile.addon.backends.asking import ask_all_rows
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.sending_apart import sent_apart
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_own_error
from turnstile.addon.tracelog.records import content_decoded, spliced

PATIENCE_S = 10.0


async def have_all_rows_told(session: Session, held: InFlight) -> None:
    """Puts the backend's answer into `held`; without one the rows stay unknown."""
    try:
        body = content_decoded(held.request, held.request_headers)
        content = ask_all_rows(spliced(body, held.splices))
        sending = sent_apart(session.settings.backend_url, held.flow.request, content)
        answer = await asyncio.wait_for(sending, PATIENCE_S)
    except TimeoutError:
        return
    except Exception as error:
        held.note(note_own_error(session, "asking for all rows", error))
        return
    if isinstance(answer, Response) and answer.status_code == 200:
        held.all_rows_reply = answer.get_content(strict=False) or b""
