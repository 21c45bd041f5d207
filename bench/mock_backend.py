"""A stand-in for SGLang that costs nothing to ask: `python mock_backend.py [WORKLOAD]...`.

Makes every reply before it listens on a free port of 127.0.0.1, which it prints as `listening PORT`. Answers
POST /v1/chat/completions and /tokenize by the key in the request's `user` field, GET /server_info and
/model_info, and anything else with 404. It always gives the full reply, whoever asks: so the same bytes pass
a bare proxy and one with Turnstile. Routed experts alone it gives to who asks for them, from the row that is
asked for.

The key `stream:TOKENS:TOKENS_A_SECOND` stands for a stream, the first of whose tokens comes at once; with 0
all come as fast as they go.
"""

import asyncio
import json
import re
import sys
from functools import cache

import workloads
from sglang_reply import WEIGHT_VERSION
from sglang_stream import DONE, stamped, stream_of

SERVER_INFO = {
    "version": "0.5.23",
    "model_path": "mock",
    "served_model_name": "mock",
    "stream_interval": 1,
    "tool_call_parser": "qwen",
}
MODEL_INFO = {"model_path": "mock", "weight_version": WEIGHT_VERSION, "is_generation": True}


def main() -> None:
    calls = {
        call.key.encode(): call
        for name in sys.argv[1:]
        for session in range(workloads.WORKLOADS[name].sessions)
        for call in workloads.calls(workloads.WORKLOADS[name], session)
    }
    replies = {key: _Reply(call) for key, call in calls.items()}
    asyncio.run(_serve(replies))


class _Reply:
    """The response to one call; what of it is the same for everybody is made beforehand."""

    def __init__(self, call: workloads.Call) -> None:
        self._plain = _response(200, call.reply)
        self.tokenized = _response(200, _tokenized(call.reply))
        self._routed = call if call.routing else None
        if call.routing:
            call.routing.text()  # that of the session is made now and kept

    def response(self, request: bytes) -> bytes:
        """What the request gets."""
        if self._routed is None or not _ASKS_FOR_ROUTING.search(request):
            return self._plain
        start = _START_ROW.search(request)
        return _response(200, self._routed.whole_reply(int(start[1]) if start else 0))


async def _serve(replies: dict[bytes, _Reply]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(replies), "127.0.0.1", 0, backlog=1024)
    print("listening", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class _Connection(asyncio.Protocol):
    """One keep-alive connection: whole requests in, whole responses out."""

    def __init__(self, replies: dict[bytes, _Reply]) -> None:
        self._replies = replies
        self._received = bytearray()
        self._streaming: asyncio.Task[None] | None = None  # held, so that it is not collected

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
            key = _key(body)
            if key.startswith(_STREAM):
                tokens, tokens_a_s = map(int, key[len(_STREAM) :].split(b":"))
                self._streaming = asyncio.create_task(self._stream(tokens, tokens_a_s))
            else:
                self._transport.write(self._answer(head, key, body))

    async def _stream(self, tokens: int, tokens_a_s: int) -> None:
        loop, stream = asyncio.get_running_loop(), _streams(tokens)
        self._transport.write(_STREAM_HEAD)
        self._send(stream.begin)
        start = loop.time()
        for number, event in enumerate(stream.tokens):
            if self._transport.is_closing():
                return
            if number:
                # of a stream that is behind, the next comes at once
                await asyncio.sleep(max(0.0, start + number / tokens_a_s - loop.time()) if tokens_a_s else 0)
            self._send(event)
        for event in stream.end:
            self._send(event)
        self._transport.write(_frame(DONE) + b"0\r\n\r\n")

    def _send(self, event: bytes) -> None:
        self._transport.write(_frame(stamped(event)))

    def _answer(self, head: bytes, key: bytes, body: bytes) -> bytes:
        path = head.split(b" ", 2)[1]
        if path not in (_CHAT, _TOKENIZE):
            return _INFO.get(path, _NOT_FOUND)
        reply = self._replies.get(key)
        if reply is None:
            return _NO_SUCH_CALL
        return reply.response(body) if path == _CHAT else reply.tokenized


def _tokenized(reply: bytes) -> bytes:
    ids = reply.partition(b'"prompt_token_ids":[')[2].partition(b"]")[0]
    return b'{"tokens":[%b],"count":%d,"max_model_len":131072}' % (ids, ids.count(b",") + 1)


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


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _response(status: int, body: bytes) -> bytes:
    head = "HTTP/1.1 %d mock\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return (head % (status, len(body))).encode() + body


_ASKS_FOR_ROUTING = re.compile(rb'"return_routed_experts": ?true')
_START_ROW = re.compile(rb'"routed_experts_start_len": ?(\d+)')
_CHAT, _TOKENIZE = b"/v1/chat/completions", b"/tokenize"
_STREAM = b"stream:"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_streams = cache(stream_of)
_INFO = {
    b"/server_info": _response(200, json.dumps(SERVER_INFO).encode()),
    b"/model_info": _response(200, json.dumps(MODEL_INFO).encode()),
    b"/health": _response(200, b""),
}
_NOT_FOUND = _response(404, b'{"detail":"Not Found"}')
_NO_SUCH_CALL = _response(400, b'{"object":"error","message":"no such call","code":400}')


if __name__ == "__main__":
    main()
