"""A stand-in for SGLang that costs nothing to ask: `python mock_backend.py WORKLOAD...`.

Makes every reply before it listens on a free port of 127.0.0.1, which it prints as `listening PORT`. Answers
POST /v1/chat/completions by the key in the request's `user` field, GET /server_info and /model_info, and
anything else with 404. It always gives the full reply, whoever asks: so the same bytes pass a bare proxy
and one with Turnstile.
"""

import asyncio
import json
import sys

import workloads
from sglang_reply import WEIGHT_VERSION

SERVER_INFO = {"version": "0.5.23", "model_path": "mock", "served_model_name": "mock", "stream_interval": 1}
MODEL_INFO = {"model_path": "mock", "weight_version": WEIGHT_VERSION, "is_generation": True}


def main() -> None:
    replies = {
        call.key.encode(): _response(200, call.reply)
        for name in sys.argv[1:]
        for session in range(workloads.WORKLOADS[name].sessions)
        for call in workloads.calls(workloads.WORKLOADS[name], session)
    }
    asyncio.run(_serve(replies))


async def _serve(replies: dict[bytes, bytes]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(replies), "127.0.0.1", 0, backlog=1024)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class _Connection(asyncio.Protocol):
    """One keep-alive connection: whole requests in, whole responses out."""

    def __init__(self, replies: dict[bytes, bytes]) -> None:
        self._replies = replies
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head_end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:head_end])
            end = head_end + 4 + content_length(head)
            if len(self._received) < end:
                return
            body = bytes(self._received[head_end + 4 : end])
            del self._received[:end]
            self._transport.write(self._answer(head, body))

    def _answer(self, head: bytes, body: bytes) -> bytes:
        path = head.split(b" ", 2)[1]
        if path == b"/v1/chat/completions":
            return self._replies.get(_key(body), _NO_SUCH_CALL)
        return _INFO.get(path, _NOT_FOUND)


def content_length(head: bytes) -> int:
    """The size in bytes of the body that follows an HTTP head; 0 where the head does not say."""
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _key(body: bytes) -> bytes:
    start = body.rfind(b'"user":"') + len(b'"user":"')
    return body[start : body.find(b'"', start)]


def _response(status: int, body: bytes) -> bytes:
    head = "HTTP/1.1 %d mock\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return (head % (status, len(body))).encode() + body


_INFO = {
    b"/server_info": _response(200, json.dumps(SERVER_INFO).encode()),
    b"/model_info": _response(200, json.dumps(MODEL_INFO).encode()),
    b"/health": _response(200, b""),
}
_NOT_FOUND = _response(404, b'{"detail":"Not Found"}')
_NO_SUCH_CALL = _response(400, b'{"object":"error","message":"no such call","code":400}')


if __name__ == "__main__":
    main()
