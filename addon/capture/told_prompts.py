"""Has the backend tell the prompt of a request before it is sent, once for all who want to know it.

A group with a token limit wants its length, see trajectory_limit. Where rows of routed experts are left out,
its ids tell how much of an earlier exchange it really begins with, see known_prefixes. Both make do where it
is not told. For the rows alone a request waits SOON_S at most, and after that none waits for PAUSE_S: a
backend that has more to do must not hold up every turn.
"""

import asyncio
import time

from turnstile.addon.backends.errors import BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.limiting import context_length
from turnstile.addon.backends.tokenizing import (
    LARGEST_BODY,
    TIMEOUT_S,
    TokenizedPrompt,
    can_tokenize,
    given_ids,
    listed_context,
    tokenized,
)
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.session import Session

SOON_S = 2.0
PAUSE_S = 10.0


async def told_prompt(
    session: Session, held: InFlight, body: bytes, facts: BackendFacts | None
) -> TokenizedPrompt | None:
    """The prompt, where somebody wants it; its count alone where the request gives it in tokens.

    None where nobody wants it, and where the backend does not tell.
    """
    has_limit = session.groups.used(held.route.group_id).max_trajectory_tokens is not None
    if not has_limit and not _rows_depend_on_it(session, held):
        return None
    if (given := given_ids(body)) is not None:
        return TokenizedPrompt(given)
    if session.cannot_tokenize or not can_tokenize(facts) or len(body) > LARGEST_BODY:
        return None
    authorization = held.flow.request.headers.get("authorization")
    url, patience_s = session.settings.backend_url, TIMEOUT_S if has_limit else SOON_S
    try:
        asked = asyncio.to_thread(tokenized, url, body, authorization, patience_s)
        return await asyncio.wait_for(asked, patience_s)
    except BackendUnreachable:
        if session.backend.known is facts:  # and no other server by now
            session.cannot_tokenize = True
    except TimeoutError:
        session.slow_to_tokenize_until = time.monotonic() + PAUSE_S
    return None


async def told_context(session: Session, held: InFlight, facts: BackendFacts | None) -> int | None:
    """The tokens that the backend's context holds, for a group with a limit; None where it does not say.

    SGLang's own settings name it only where it was started so. Where they do not, the list of models is asked
    for once.
    """
    if session.groups.used(held.route.group_id).max_trajectory_tokens is None:
        return None
    if facts is None:
        return None
    if (known := context_length(facts)) is not None:
        return known
    if session.context_of is None or session.context_of[0] is not facts:
        authorization = held.flow.request.headers.get("authorization")
        asked = asyncio.to_thread(listed_context, session.settings.backend_url, authorization, SOON_S)
        try:
            listed = await asyncio.wait_for(asked, SOON_S)
        except TimeoutError:
            listed = None
        session.context_of = (facts, listed)
    return session.context_of[1]


def _rows_depend_on_it(session: Session, held: InFlight) -> bool:
    is_resent = held.resent is not None and bool(held.resent.known)
    return is_resent and session.prefixes.wants_told and time.monotonic() >= session.slow_to_tokenize_until
