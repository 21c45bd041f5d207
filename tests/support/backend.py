"""A scriptable HTTP server that stands in for a backend, in a thread of the test."""

import contextlib
import json
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_S = 20.0  # longest wait for something that shall happen


@dataclass
class Received:
    """A request as the backend got it."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    wait_until_closed: Callable[[], bool] = field(repr=False)  # whether the proxy closed the connection

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """What the backend answers; chunks are sent as they come, with chunked transfer-encoding."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    cut_after: int | None = None  # bytes of the body, after which the connection is closed
    trailers: bytes = b""  # lines behind the last chunk


Script = Callable[[Received], Reply]

SERVER_INFO = {"version": "0.5.23", "tokenizer_path": "/models/m", "tp_size": 1, "api_key": "server-secret"}
MODEL_INFO = {"model_path": "/models/m", "tokenizer_path": "/models/m", "weight_version": "step-1"}


EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


class Backend:
    """Answers chat completions by `script`, everything else as SGLang would; keeps what it received."""

    def __init__(self, port: int = 0, *, server_info: dict[str, Any] | None = None) -> None:
        self.received: list[Received] = []  # but for probes
        self.probes: list[Received] = []
        self.script: Script = lambda received: Reply(chat_reply(received.json))
        self.guard: Callable[[Received], Reply] | None = None  # answers the probes instead
        self.server_info = SERVER_INFO | (server_info or {})
        self.model_info: dict[str, Any] = dict(MODEL_INFO)
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Closes the port and every connection."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, received: Received) -> Reply:
        infos = {"/server_info": self.server_info, "/model_info": self.model_info}
        if received.method == "GET" and (received.path in infos or self.guard is not None):
            self.probes.append(received)
            return self.guard(received) if self.guard else Reply(json.dumps(infos[received.path]).encode())
        self.received.append(received)
        return self.script(received)


@contextlib.contextmanager
def running_backend(port: int = 0, *, server_info: dict[str, Any] | None = None) -> Iterator[Backend]:
    backend = Backend(port, server_info=server_info)
    try:
        yield backend
    finally:
        backend.stop()


def chat_reply(
    request: dict[str, Any], *, content: str = "4", sampled_ids: tuple[int, ...] = (19, 151645)
) -> bytes:
    """A chat completion as SGLang 0.5.23 gives it: with what `request` asks for, and no more."""
    choices = []
    for index in range(request.get("n") or 1):
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": content, "reasoning_content": None},
            "logprobs": None,
            "finish_reason": "stop",
            "matched_stop": sampled_ids[-1],
        }
        logprobs = [-0.5 * (at + 1) for at in range(len(sampled_ids))]
        if request.get("logprobs"):
            items = [
                {"token": content, "bytes": list(content.encode()), "logprob": value, "top_logprobs": []}
                for value in logprobs
            ]
            choice["logprobs"] = {"content": items}
        if request.get("return_prompt_token_ids"):
            choice["prompt_token_ids"] = [1, 2, 3]
        if request.get("return_meta_info"):
            triples = [[value, token, None] for value, token in zip(logprobs, sampled_ids, strict=True)]
            choice["meta_info"] = {
                "prompt_tokens": 3,
                "completion_tokens": len(sampled_ids),
                "weight_version": "step-1",
                "cached_tokens": 0,
                "finish_reason": {"type": "stop", "matched": sampled_ids[-1]},
                "output_token_logprobs": triples,
                "weight_versions": [{"version": "step-1", "start": 0, "end": len(sampled_ids)}],
            }
        choices.append(choice)
    completion = len(sampled_ids) * len(choices)
    usage = {"prompt_tokens": 3, "completion_tokens": completion, "total_tokens": 3 + completion}
    reply = {"id": "r1", "object": "chat.completion", "created": 1, "model": request.get("model", "m")}
    return json.dumps(
        reply | {"choices": choices, "usage": usage, "metadata": {"weight_version": "step-1"}}
    ).encode()


def chat_stream(request: dict[str, Any], *texts: str, stops: bool = False) -> list[bytes]:
    """The events of a chat stream as SGLang 0.5.23 sends them: with what `request` asks for, and no more.

    Each of `texts` is a token. The last one ends the stream for its length, or it `stops` with one token
    more, whose logprob is lost, as it is without a parser.
    """
    sampled_ids = [*range(19, 19 + len(texts)), *([151645] if stops else [])]
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": request.get("model", "m")}

    def chunk(delta: dict[str, Any], logprobs: Any = None, **ending: Any) -> bytes:
        usual = {"logprobs": logprobs, "finish_reason": None, "matched_stop": None}
        return sse({**head, "choices": [{"index": 0, "delta": delta} | usual | ending]})

    def row(at: int, text: str) -> Any:
        fields = {"token": text, "bytes": list(text.encode()), "logprob": -0.5 * (at + 1), "top_logprobs": []}
        return {"content": [fields]} if request.get("logprobs") else None

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": text}, row(at, text)) for at, text in enumerate(texts)]
    events.append(chunk({}, finish_reason="stop" if stops else "length"))
    ids = {"input_ids": [1, 2, 3], "output_ids": [sampled_ids]}
    asked_for = {name: value for name, value in ids.items() if request.get(f"return_{name}_in_sglext")}
    if asked_for:
        events.append(sse({**head, "choices": [], "usage": None, "sglext": asked_for}))
    if (request.get("stream_options") or {}).get("include_usage"):
        sampled = len(sampled_ids)
        usage = {"prompt_tokens": 3, "completion_tokens": sampled, "total_tokens": 3 + sampled}
        events.append(sse({**head, "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def sse(value: Any) -> bytes:
    """An event as SGLang writes it."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], backend: Backend) -> None:
        self.backend = backend
        self._open: set[Any] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for request in list(self._open):
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the other side closed is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_any(self) -> None:
        received = Received(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            self._body(),
            self._closed,
        )
        reply = self.server.backend.answer(received)
        try:
            self._send(reply)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_PUT = handle_any

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _closed(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], WAIT_S)
        return bool(readable) and self.connection.recv(1) == b""

    def _send(self, reply: Reply) -> None:
        whole = reply.body if isinstance(reply.body, bytes) else None
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if whole is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(len(whole)))
        self.end_headers()
        if whole is not None:
            self.wfile.write(whole[: reply.cut_after])
            self.close_connection |= reply.cut_after is not None
            return
        for chunk in reply.body:
            assert isinstance(chunk, bytes)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n" + reply.trailers + b"\r\n")
