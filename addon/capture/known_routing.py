"""Where capture meets the known prefixes: before a request leaves, and when its exchange has ended.

A failure of ours costs no more than rows that are asked for again.
"""

from collections.abc import Sequence

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.backends.tokenizing import TokenizedPrompt
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.known_prefixes import Resent, readings_of
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.routing import asks_for_delta
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_own_error
from turnstile.addon.capture.token_texts import prompt_text


def resent_by(session: Session, route: Route, body: bytes, facts: BackendFacts | None) -> Resent | None:
    """What the request repeats of earlier exchanges; None where that has no bearing on what is asked."""
    if not asks_for_delta(session.settings.moe, facts):
        return None
    try:
        return session.prefixes.look_up(route, body)
    except Exception as error:
        note_own_error(session, "looking a prefix up", error)
        return None


def settled(session: Session, resent: Resent | None, prompt: TokenizedPrompt | None) -> Resent | None:
    """The same with the row to begin at, by what is known now: the prompt may have been told meanwhile."""
    if resent is None:
        return None
    try:
        text = prompt_text(prompt.ids) if prompt is not None else b""
        return session.prefixes.settled(resent, text)
    except Exception as error:
        note_own_error(session, "comparing a prefix", error)
        return None


def reply_readings(
    session: Session, held: InFlight, status: int, content: bytes | None
) -> Sequence[ChoiceReading] | None:
    """What the backend's reply says, where anything is to be learnt of it; else None.

    `content` is the reply without its content-encoding, None where that cannot be undone.
    """
    asking, resent = held.asking, held.resent
    if asking is None or resent is None or asking.harness.names_first_row or status != 200:
        return None
    try:
        return readings_of(content or b"")
    except Exception as error:
        note_own_error(session, "reading a reply", error)
        return None


def leaves_rows_out(session: Session, held: InFlight, readings: Sequence[ChoiceReading] | None) -> bool:
    """Whether the backend computed rows anew that its reply was not asked to tell."""
    asking, resent = held.asking, held.resent
    if readings is None or asking is None or resent is None or not asking.routing_start:
        return False
    try:
        return session.prefixes.leaves_rows_out(resent, readings, asking.routing_start)
    except Exception as error:
        note_own_error(session, "comparing a reply", error)
        return False


def note_reply(
    session: Session,
    held: InFlight,
    status: int,
    readings: Sequence[ChoiceReading] | None,
    *,
    is_recorded: bool,
) -> None:
    """Learns from the backend's reply; `is_recorded` when all of it that capture wants is in the log."""
    asking, resent = held.asking, held.resent
    if asking is None or resent is None or asking.harness.names_first_row:
        return
    try:
        if readings is not None:
            start = asking.routing_start
            session.prefixes.learn(resent, readings, start=start, is_recorded=is_recorded)
        elif status >= 500:
            note_no_reply(session, held)
    except Exception as error:
        note_own_error(session, "remembering a prefix", error)


def note_no_reply(session: Session, held: InFlight) -> None:
    """What the backend computed without telling, nobody knows."""
    if held.asking is not None and held.resent is not None:
        session.prefixes.lose(held.resent)
