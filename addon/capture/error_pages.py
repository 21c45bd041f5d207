"""Gives errors of the proxy core OpenAI's shape: an unreachable backend, a malformed request.

mitmproxy answers these with an HTML page from inside its HTTP/1 layer, and a hook cannot: `error` comes
too late to set a response. So the one function that makes the page is exchanged while Turnstile captures.
"""

import json

from mitmproxy.http import Response
from mitmproxy.net.http import http1
from mitmproxy.proxy.layers.http import _http1

_html_page = _http1.make_error_response


def use_openai_errors() -> None:
    """From now on errors of the proxy core have OpenAI's shape."""
    _http1.make_error_response = openai_error


def use_html_errors() -> None:
    """Puts mitmproxy's own page back."""
    _http1.make_error_response = _html_page


def openai_error(status_code: int, message: str = "") -> bytes:
    """A whole HTTP/1 reply, after which the connection is closed."""
    if status_code == 502:
        type, code, text = "server_error", "backend_failed", f"The backend gave no whole answer: {message}"
    else:
        type, code, text = "invalid_request_error", "bad_request", message
    body = {"error": {"message": text, "type": type, "param": None, "code": code}}
    headers = {"content-type": "application/json", "connection": "close"}
    response = Response.make(status_code, json.dumps(body).encode(), headers)
    return bytes(http1.assemble_response(response))  # type: ignore[no-untyped-call]
