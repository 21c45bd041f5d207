"""Replies in a content-encoding that the backend was not asked for, through the real mitmdump."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest
import zstandard

from tests.support.backend import Backend, Reply, chat_reply
from tests.support.mitmdump import Answered, Proxy

JSON = {"content-type": "application/json"}
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}'

zstd = zstandard.ZstdCompressor(write_content_size=False).compress
UNDOABLE: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("utf-8", bytes),
    ("gzip, gzip", lambda reply: gzip.compress(gzip.compress(reply))),
    ("gzip", bytes),
    ("br", bytes),
    ("hex", lambda reply: reply.hex().encode()),
]


def ask(proxy: Proxy, backend: Backend, group_id: str, encoding: str, reply: bytes, sent: bytes) -> Answered:
    backend.script = lambda received: Reply(reply, headers=JSON | {"content-encoding": encoding})
    return proxy.ask("POST", f"/group/{group_id}/v1/chat/completions", sent, JSON)


@pytest.mark.parametrize(("encoding", "encode"), UNDOABLE)
def test_a_reply_that_cannot_be_undone_is_recorded_and_handed_on_as_it_came(
    proxy: Proxy, backend: Backend, encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    group_id = f"raw-{UNDOABLE.index((encoding, encode))}"
    own_errors = proxy.health()["capture"]["own_errors"]
    sent = encode(chat_reply({"logprobs": True}))
    answer = ask(proxy, backend, group_id, encoding, sent, BODY)
    assert (answer.status, answer.body, answer.headers["content-encoding"]) == (200, sent, encoding)
    exchange = proxy.exchange(group_id)
    assert (exchange.reply, dict(exchange.reply_headers)["content-encoding"]) == (sent, encoding)
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("complete", 200, True)
    assert exchange.error is not None
    assert exchange.error.startswith("the reply's content-encoding could not be undone: ")
    health = proxy.health()
    assert (health["capture"]["in_flight"], health["capture"]["own_errors"]) == (0, own_errors)
    assert any("a content-encoding that cannot be undone" in problem for problem in health["problems"])


def test_no_stream_can_be_made_of_a_reply_that_cannot_be_undone(proxy: Proxy, backend: Backend) -> None:
    sent = chat_reply({"logprobs": True})
    streaming = json.dumps(json.loads(BODY) | {"stream": True}).encode()
    answer = ask(proxy, backend, "raw-stream", "utf-8", sent, streaming)
    assert (answer.status, answer.json["error"]["code"]) == (502, "backend_failed")
    exchange = proxy.exchange("raw-stream")
    assert (exchange.outcome, exchange.reply, exchange.delivered) == ("complete", sent, False)


def test_an_error_that_cannot_be_undone_passes_as_it_came(proxy: Proxy, backend: Backend) -> None:
    streaming = json.dumps(json.loads(BODY) | {"stream": True}).encode()
    backend.script = lambda received: Reply(b"no", status=500, headers={"content-encoding": "utf-8"})
    answer = proxy.ask("POST", "/group/raw-error/v1/chat/completions", streaming, JSON)
    assert (answer.status, answer.body) == (500, b"no")
    assert proxy.exchange("raw-error").status == 500


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", lambda reply: gzip.compress(reply[:50]) + gzip.compress(reply[50:])),
        ("zstd", lambda reply: zstd(reply[:50]) + zstd(reply[50:])),
        ("deflate", bare_deflate),
    ],
)
def test_a_reply_in_parts_arrives_whole_and_is_read_whole_from_the_log(
    proxy: Proxy, backend: Backend, encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    reply = chat_reply({"logprobs": True, "return_meta_info": True, "return_prompt_token_ids": True})
    sent = encode(reply)
    answer = ask(proxy, backend, f"parts-{encoding}", encoding, sent, BODY)
    assert answer.json == json.loads(chat_reply({}))
    exchange = proxy.exchange(f"parts-{encoding}")
    assert (exchange.reply, exchange.reply_content()) == (sent, reply)
    assert (exchange.missing, exchange.error) == ((), None)
