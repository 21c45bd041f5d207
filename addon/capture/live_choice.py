"""Whether a harness that streams gets its stream as it comes, or made of a whole reply.

SGLang tells token ids to streams since 0.5.20. Without a reasoning or tool parser it loses the logprobs of
tokens that give no text, the end token among them.
"""

from collections.abc import Collection

from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_buffered

LIVE_SINCE = (0, 5, 20)


def may_stream_live(session: Session, facts: BackendFacts | None) -> bool:
    """Whether a request for a stream goes out as one, to a backend of these facts."""
    option = session.settings.streaming
    if option == "buffered" or session.fell_back:
        return False
    if facts is None:
        if option == "live":
            note_buffered(session, "it is not known yet what the backend is")
        return False
    if facts.kind != "sglang" or not at_least(facts, *LIVE_SINCE):
        if option == "live":
            found = f"{facts.kind} {facts.version_text or 'of no known version'}"
            note_buffered(session, f"to be live they need SGLang 0.5.20 or later, and the backend is {found}")
        return False
    return option == "live" or bool(facts.reasoning_parser or facts.tool_call_parser)


def fall_back(session: Session, missing: Collection[str]) -> None:
    """Has all streams buffered from now on, where that is left to Turnstile."""
    if session.settings.streaming == "auto" and not session.fell_back:
        session.fell_back = True
        note_buffered(session, f"a live one lacked {', '.join(missing)}")
