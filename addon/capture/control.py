"""The URLs that Turnstile answers by itself: health, flush, and those of groups."""

from collections.abc import Awaitable, Callable
from typing import Any

from mitmproxy.http import Request

from turnstile.addon.capture.answers import Answer, invalid_request, not_recorded, refusal
from turnstile.addon.capture.group_control import make_group, reward_group, show_group
from turnstile.addon.capture.routing import routing_asked
from turnstile.addon.capture.session import Session, turnstile_version
from turnstile.addon.tracelog.ids import shown

Act = Callable[[], Awaitable[Answer]]

URLS = (
    "GET /turnstile/health",
    "POST /turnstile/flush",
    "POST /turnstile/groups",
    "GET /turnstile/groups/{id}",
    "POST /turnstile/groups/{id}/reward",
)


async def control_answer(session: Session, request: Request, path: str) -> Answer:
    """What /turnstile/... answers; 404 for an unknown path, 405 for a wrong method.

    `path` is the request's in its plain form, without the query.
    """
    of_ours = path.removeprefix("/turnstile/")
    found = _found(session, request, of_ours.split("/")) if of_ours != path else None
    if found is None:
        return invalid_request(
            404, f"no such URL: {shown(path)}; there are {', '.join(URLS)}", code="not_found"
        )
    method, act = found
    allowed = ("GET", "HEAD") if method == "GET" else (method,)
    if request.method not in allowed:
        message = f"{shown(path)} takes {method}, not {request.method[:20]}"
        return refusal(
            405, message, type="invalid_request_error", code="method_not_allowed", allow=", ".join(allowed)
        )
    return await act()


def _found(session: Session, request: Request, parts: list[str]) -> tuple[str, Act] | None:
    """The method of a control URL, and what answers it."""
    match parts:
        case ["health"]:
            return "GET", lambda: health(session)
        case ["flush"]:
            return "POST", lambda: flush(session)
        case ["groups"]:
            return "POST", lambda: make_group(session, request)
        case ["groups", group_id]:
            return "GET", lambda: show_group(session, group_id)
        case ["groups", group_id, "reward"]:
            return "POST", lambda: reward_group(session, request, group_id)
    return None


async def health(session: Session) -> Answer:
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
