"""An HTTP server that answers from trace logs as their backend did: the server of `turnstile replay`.

Generations are matched by their request (see `recorded_replies`). What a probe and a client's health check
ask for is answered from the backend's facts in the log.
"""

import json
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.tracelog.records import content_decoded
from turnstile.recorded_replies import Answer, RecordedReplies

JSON = "application/json"


class ReplayServer(ThreadingHTTPServer):
    """Serves `replies` on host and port from `serve_forever` on; port 0 takes a free one.

    Raises OSError when the port cannot be had.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, replies: RecordedReplies, host: str, port: int) -> None:
        self.replies = replies
        super().__init__((host, port), _Handler)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's name, which takes seconds where there is no DNS."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no news; anything else goes to stderr as usual."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def facts_answer(replies: RecordedReplies, path: str) -> Answer | None:
    """What the backend says of itself at `path`; None where it says nothing there."""
    facts = replies.facts or BackendFacts(kind="unknown")
    says = _SAYS.get(path)
    value = None if says is None else says(facts, int(replies.started_at))
    if path in _HEALTH:
        return Answer(200, JSON, b"")
    return None if value is None else Answer(200, JSON, json.dumps(value).encode())


def not_recorded(method: str, path: str, body: bytes) -> Answer:
    """The error that names what was looked for, without repeating it."""
    message = (
        f"No recorded exchange answers {method} {path}{_described(body)}. A request is answered when the log "
        "holds the same one; only how it wants to be answered (stream, logprobs, return_...) may differ."
    )
    return _error(404, message, "not_recorded")


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # the head and the body of an answer leave together
    server: ReplayServer

    def do_GET(self) -> None:
        """Answers from the facts, else from the replies."""
        self._send(facts_answer(self.server.replies, self.path.partition("?")[0]) or self._recorded(b""))

    def do_POST(self) -> None:
        """Answers from the replies."""
        try:
            body = content_decoded(self._body(), tuple(self.headers.items()))
        except ValueError:
            self.close_connection = True
            self._send(_error(400, "The request's body cannot be read.", "unreadable_body"))
            return
        self._send(self._recorded(body))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: stderr is for the user."""

    def _recorded(self, body: bytes) -> Answer:
        answer = self.server.replies.answer(self.command, self.path, body)
        return answer or not_recorded(self.command, self.path.partition("?")[0], body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


_HEALTH = frozenset({"/health", "/health_generate", "/ready"})


def _server_info(facts: BackendFacts, created: int) -> Mapping[str, Any] | None:
    return facts.server_info or None


def _model_info(facts: BackendFacts, created: int) -> Mapping[str, Any] | None:
    return facts.model_info or None


def _version(facts: BackendFacts, created: int) -> Mapping[str, Any] | None:
    return {"version": facts.version_text} if facts.kind == "vllm" else None


def _models(facts: BackendFacts, created: int) -> Mapping[str, Any]:
    name = facts.served_model_name or facts.model_path or "replay"
    model = {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": facts.kind,
        "root": facts.model_path or name,
        "parent": None,
        "max_model_len": facts.server_info.get("context_length"),
    }
    return {"object": "list", "data": [model]}


_SAYS: Mapping[str, Callable[[BackendFacts, int], Mapping[str, Any] | None]] = {
    "/server_info": _server_info,
    "/get_server_info": _server_info,
    "/model_info": _model_info,
    "/get_model_info": _model_info,
    "/version": _version,
    "/v1/models": _models,
}


def _error(status: int, message: str, code: str) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Answer(status, JSON, json.dumps({"error": error}).encode())


def _described(body: bytes) -> str:
    """The request's model and its number of messages, as far as it has them."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(request, dict):
        return ""
    messages = request.get("messages")
    count = f" and {len(messages)} message(s)" if isinstance(messages, list) else ""
    return f" with model {json.dumps(request.get('model'))}{count}"
