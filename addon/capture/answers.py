"""What Turnstile answers by itself; errors have OpenAI's shape, so that any client shows their message."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mitmproxy.http import HTTPFlow, Response


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the proxy itself."""

    status: int
    content: Mapping[str, Any]  # sent as JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(
    status: int, message: str, *, type: str, code: str, param: str | None = None, **headers: str
) -> Answer:
    """An error in OpenAI's shape; `headers` are written with underscores."""
    error = {"message": message, "type": type, "param": param, "code": code}
    return Answer(
        status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def invalid_request(status: int, message: str, *, code: str, param: str | None = None) -> Answer:
    """The harness asked for something that cannot be."""
    return refusal(status, message, type="invalid_request_error", code=code, param=param)


def wrong_key() -> Answer:
    """The proxy's secret is missing or wrong."""
    message = (
        "This proxy needs its key: send it as `Authorization: Bearer KEY` (the client's api_key) or as "
        "`X-Turnstile-Key: KEY`."
    )
    return refusal(
        401, message, type="authentication_error", code="invalid_api_key", www_authenticate="Bearer"
    )


def not_capturing(reason: str) -> Answer:
    """Nothing can be recorded now, so nothing is forwarded."""
    return refusal(503, f"Turnstile does not capture: {reason}", type="server_error", code="not_capturing")


def not_recorded(reason: str) -> Answer:
    """The exchange took place and could not be written to the log."""
    message = (
        f"The backend answered, but the exchange could not be recorded: {reason}. Free space or mend the log "
        "directory and send the request again; turnstile_on_log_error=pass hands answers on without a record."
    )
    return refusal(507, message, type="server_error", code="capture_failed")


def backend_failed(reason: str) -> Answer:
    """The backend gave no whole answer; as `error_pages` has it."""
    message = f"The backend gave no whole answer: {reason}"
    return refusal(502, message, type="server_error", code="backend_failed")


def internal_error(doing: str) -> Answer:
    """Turnstile itself failed and has nothing right to hand on."""
    message = f"Turnstile failed while {doing}; the console of the proxy says why."
    return refusal(500, message, type="server_error", code="turnstile_error")


def give(flow: HTTPFlow, answer: Answer) -> None:
    """Answers the flow; nothing is forwarded, or the backend's reply is replaced."""
    # The reply to HEAD has no body, whatever its status: one would be read as the next reply's head.
    body = b"" if flow.request.method == "HEAD" else json.dumps(answer.content).encode()
    flow.response = Response.make(answer.status, body, {"content-type": "application/json", **answer.headers})
