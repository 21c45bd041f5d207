"""The URLs that Turnstile answers by itself: /turnstile/health and /turnstile/flush."""

from typing import Any

from turnstile.addon.capture.answers import Answer, invalid_request, not_recorded, refusal
from turnstile.addon.capture.routing import routing_asked
from turnstile.addon.capture.session import Session, turnstile_version

LATER = "/turnstile/groups"


async def control_answer(session: Session, method: str, path: str) -> Answer:
    """What /turnstile/... answers; 404 for an unknown path, 405 for a wrong method."""
    allowed = {"/turnstile/health": ("GET", "HEAD"), "/turnstile/flush": ("POST",)}.get(path)
    if allowed is None:
        late = path == LATER or path.startswith(f"{LATER}/")
        why = "groups and rewards are not built yet; " if late else ""
        message = f"no such URL: {path[:80]}; {why}there are /turnstile/health and /turnstile/flush"
        return invalid_request(404, message, code="not_found")
    if method not in allowed:
        message = f"{path} takes {allowed[0]}, not {method}"
        return refusal(
            405, message, type="invalid_request_error", code="method_not_allowed", allow=", ".join(allowed)
        )
    return health(session) if path == "/turnstile/health" else await flush(session)


def health(session: Session) -> Answer:
    """200 while capture works, 503 while the last write to the log failed."""
    recorder, position = session.recorder, session.recorder.position
    content = {
        "status": "cannot_write" if recorder.failing else "ok",
        "version": turnstile_version(),
        "backend": _backend(session),
        "moe": {
            "mode": session.settings.moe,
            "asked": routing_asked(session.settings.moe, session.backend.known) != "off",
        },
        "capture": session.counters.as_json()
        | {"in_flight": len(session.in_flight), "write_errors": recorder.write_errors},
        "log": {"path": position.path, "offset": position.offset},
        "problems": _problems(session),
    }
    return Answer(503 if recorder.failing else 200, content)


async def flush(session: Session) -> Answer:
    """Answers once all that was captured is in the log, with the weights that were read after it."""
    await session.weights.settled()
    await session.recorder.flush()
    if session.recorder.failing:
        return not_recorded("the last write failed")
    position = session.recorder.position
    return Answer(200, {"flushed": True, "log": {"path": position.path, "offset": position.offset}})


def _backend(session: Session) -> dict[str, Any]:
    watch = session.backend
    found = watch.known.as_record() if watch.known else {"kind": "unknown"}
    return {"url": watch.url, "probed": watch.known is not None, "problem": watch.problem} | found


def _problems(session: Session) -> list[str]:
    """In words, what stands in the way of a complete capture."""
    problems = sorted(session.said)
    problems += filter(None, (session.backend.problem, session.backend.shortcoming))
    if session.recorder.failing:
        problems.append("the last write to the log failed")
    return problems
