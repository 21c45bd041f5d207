"""What to tell the user when a backend does not give what training needs, each thing once."""

import logging
import traceback
from collections.abc import Collection

from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.capture.session import Session

logger = logging.getLogger(__name__)

IDS_SINCE = (0, 5, 13)
ID_FLAGS_SINCE = (0, 5, 20)


def note_missing(session: Session, missing: Collection[str]) -> None:
    """Counts an exchange that lacks facts; the first of a kind is said loudly."""
    session.counters.incomplete += 1
    session.counters.missing.update(missing)
    say_once(session, f"replies lack {', '.join(missing)}: {what_to_do(missing, session.backend.known)}")


def note_missing_in_stream(session: Session, missing: Collection[str]) -> None:
    """The same of a stream that was handed on as it came."""
    session.counters.incomplete += 1
    session.counters.missing.update(missing)
    what_to_do = (
        "start SGLang with --reasoning-parser or --tool-call-parser, or set turnstile_streaming=buffered"
    )
    say_once(session, f"live streams lack {', '.join(missing)}: {what_to_do}")


def note_behind_done(session: Session) -> None:
    """Says once that a record is made when [DONE] comes, and lacks what comes behind it."""
    say_once(session, "the backend sends bytes behind [DONE]: they are handed on and not recorded")


def note_streamed_by_others(session: Session) -> str:
    """Says once that replies pass unseen; returns what the record shall say."""
    problem = "another script of mitmproxy streamed the reply, so that its body was not seen"
    say_once(session, problem)
    return problem


def note_undecodable(session: Session, error: ValueError) -> str:
    """Counts a reply that cannot be read, says so once; returns what the record shall say."""
    session.counters.incomplete += 1
    say_once(
        session,
        "replies have a content-encoding that cannot be undone, and are recorded and handed on as they came: "
        "let the backend, or the gateway in front of it, send plain replies",
    )
    return f"the reply's content-encoding could not be undone: {error}"


def note_buffered(session: Session, why: str) -> None:
    """Says once that streams are made of whole replies although the user asked for live ones."""
    problem = f"streams are buffered: {why}"
    if problem not in session.said:
        session.said.add(problem)
        logger.warning("turnstile: %s", problem)


def note_uncaptured(session: Session, endpoint: str) -> None:
    """Counts a generation that passes by uncaptured; the first of an endpoint is said loudly."""
    session.counters.uncaptured[endpoint] += 1
    say_once(
        session, f"{endpoint} passes through and is not recorded: only /v1/chat/completions is captured yet"
    )


def say_once(session: Session, problem: str) -> None:
    """Tells the console, and the health page from now on."""
    if problem not in session.said:
        session.said.add(problem)
        logger.error("turnstile: INCOMPLETE CAPTURE: %s", problem)


def what_to_do(missing: Collection[str], facts: BackendFacts | None) -> str:
    """How to get a backend to report what is missing."""
    if set(missing) == {"routed_experts"}:
        return "start SGLang with --enable-return-routed-experts, or set turnstile_moe=off"
    if facts is not None and facts.kind == "vllm":
        return "vLLM must be one that knows return_token_ids; upgrade it"
    if facts is not None and facts.kind == "sglang" and facts.version and not at_least(facts, *IDS_SINCE):
        return f"SGLang {facts.version_text} cannot report them; upgrade to 0.5.13 or later"
    flags = "start SGLang (0.5.20 or later) with --return-input-ids --return-output-ids"
    if facts is not None and at_least(facts, *ID_FLAGS_SINCE):
        flags = "start SGLang with --return-input-ids --return-output-ids"
    return (
        "something between Turnstile and SGLang, a router perhaps, drops fields of the request; let "
        f"Turnstile talk to a worker directly, or {flags}"
    )


def note_own_error(session: Session, doing: str, error: Exception) -> str:
    """Counts an exception in Turnstile's own code, says once where it was; gives what the record shall say.

    Never the exception's text, which may hold a part of a body.
    """
    session.counters.own_errors += 1
    name, at = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
    problem = f"OWN ERROR while {doing}: {name} at {at.filename}:{at.lineno}"
    if problem not in session.said:
        session.said.add(problem)
        logger.error("turnstile: %s", problem)
    return f"Turnstile failed while {doing}: {name}"
