"""URLs of the proxy: which group and rollout a request belongs to, and where on the backend it goes.

    /group/{group}/v1/...                  the backend's /v1/..., and /generate likewise
    /group/{group}/rollout/{rollout}/v1/...
    /v1/...                                group from the headers, else "default"
    /turnstile/...                         answered by Turnstile itself

A backend unquotes a path before it looks it up, and routers in front of it may fold "//" and "..". So a path
is compared in that form: no spelling of an endpoint that generates goes by unseen. It is then forwarded in
its plain spelling; every other path is forwarded as it came, without its prefix.
"""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from turnstile.addon.tracelog.ids import EXPECTED, is_id, shown

Kind = Literal["chat", "uncaptured", "other", "control"]
# chat        a chat completion, which is captured
# uncaptured  another endpoint that generates, which this version only counts
# other       passes through

# At /invocations (SageMaker's) SGLang answers exactly as at /v1/chat/completions, but vLLM whatever the body
# asks for, and what reads the log knows replies by their path: so it is not captured. /vertex_generate,
# /api/chat and /api/generate (Ollama's) have bodies of their own.
GENERATING: dict[str, Kind] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "uncaptured",
    "/v1/messages": "uncaptured",
    "/v1/responses": "uncaptured",
    "/generate": "uncaptured",
    "/invocations": "uncaptured",
    "/vertex_generate": "uncaptured",
    "/api/chat": "uncaptured",
    "/api/generate": "uncaptured",
}
_CHAT_ANYWHERE = "/chat/completions"  # behind a prefix that is not SGLang's
DEFAULT_GROUP = "default"


class RouteError(Exception):
    """A group or rollout id is not one; the message says which and what is expected."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes."""

    kind: Kind
    target: str  # path and query for the backend; for control the plain path
    group_id: str
    rollout_id: str | None


def find_route(
    method: str, target: str, *, group_header: str | None = None, rollout_header: str | None = None
) -> Route:
    """The route of a request for `target` (path and query as in the request line).

    Ids in the URL win over those of the headers. Raises RouteError for an id that is not 1 to 128 of
    [A-Za-z0-9._:-].
    """
    path, mark, query = target.partition("#")[0].partition("?")  # a fragment is no part of what is asked
    group_id = DEFAULT_GROUP if group_header is None else _checked("group", group_header)
    rollout_id = None if rollout_header is None else _checked("rollout", rollout_header)
    segments = path.split("/")
    if _begins_with(segments, "group"):
        group_id, segments = _named("group", segments)
        if _begins_with(segments, "rollout"):
            rollout_id, segments = _named("rollout", segments)
        path = "/" + "/".join(segments).lstrip("/")
        plain = plain_path(path)
    else:
        plain = plain_path(path)
        is_ours = _begins_with(segments, "turnstile") and plain not in GENERATING
        if is_ours or plain == "/turnstile" or plain.startswith("/turnstile/"):
            return Route("control", plain, group_id, rollout_id)
    kind = _kind(method, plain)
    spelled = plain if kind != "other" and plain in GENERATING else path
    return Route(kind, spelled + mark + query, group_id, rollout_id)


def endpoint(route: Route) -> str:
    """One of few names for where an uncaptured request goes: harnesses make up paths."""
    path = plain_path(route.target.partition("?")[0])
    return path if path in GENERATING else f"*{_CHAT_ANYWHERE}"


def plain_path(path: str) -> str:
    """A path as a server sees it: unquoted, "//" and "." folded, ".." taken, no slash at the end."""
    kept: list[str] = []
    for segment in unquote(path).split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def _kind(method: str, plain: str) -> Kind:
    if method != "POST":
        return "uncaptured" if (method, plain) == ("PUT", "/generate") else "other"  # SGLang takes both
    return GENERATING.get(plain, "uncaptured" if plain.endswith(_CHAT_ANYWHERE) else "other")


def _begins_with(segments: list[str], word: str) -> bool:
    return unquote(next(filter(None, segments), "")) == word


def _named(what: str, segments: list[str]) -> tuple[str, list[str]]:
    """The id in `segments`, which begin with the word `what`, and the segments after it."""
    at = next(at for at, segment in enumerate(segments) if segment) + 1
    if at == len(segments) or not segments[at]:
        raise RouteError(f"no {what} id after /{what}/: expected {EXPECTED}")
    return _checked(what, unquote(segments[at])), segments[at + 1 :]


def _checked(what: str, found: str) -> str:
    if not is_id(found):
        raise RouteError(f"bad {what} id {shown(found)}: expected {EXPECTED}")
    return found
