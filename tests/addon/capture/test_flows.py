import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import brotli  # type: ignore[import-untyped]
import openai
import pytest

from tests.support.backend import Backend, Received, Reply, chat_reply
from tests.support.mitmdump import Proxy
from turnstile.addon.tracelog.records import Exchange

JSON = {"content-type": "application/json"}
QUESTION: Any = [{"role": "user", "content": "2+2?"}]
BODY = b'{"model": "m",  "messages": [{"role": "user", "content": "2+2?"}], "temperature": 0.70}'


@pytest.fixture
def client(proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    url = f"{proxy.url}/group/{request.node.name}/rollout/r/v1"
    with openai.OpenAI(base_url=url, api_key="harness-key", max_retries=0) as made:
        yield made


def recorded(proxy: Proxy, group_id: str) -> Exchange:
    (exchange,) = proxy.exchanges(group_id)
    return exchange


def test_a_completion_is_recorded_whole_and_handed_on_as_if_nothing_had_been_asked(
    proxy: Proxy, backend: Backend
) -> None:
    answer = proxy.ask("POST", "/group/plain/rollout/r1/v1/chat/completions?x=1", BODY, JSON)
    (received,) = backend.received
    exchange = recorded(proxy, "plain")
    assert answer.json == json.loads(chat_reply(json.loads(BODY)))
    assert (received.path, exchange.path) == ("/v1/chat/completions?x=1",) * 2
    assert exchange.request == BODY
    assert exchange.forwarded() == received.body != BODY
    assert exchange.reply == chat_reply(received.json)
    assert (exchange.group_id, exchange.rollout_id, exchange.method) == ("plain", "r1", "POST")
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("complete", 200, True)
    assert (exchange.missing, exchange.error) == ((), None)
    assert exchange.backend is not None
    assert exchange.backend["version_text"] == "0.5.23"
    assert 0 <= exchange.duration_s < 60


def test_the_openai_client_gets_its_completion(client: openai.OpenAI, proxy: Proxy) -> None:
    completion = client.chat.completions.create(model="m", messages=QUESTION, n=2)
    assert [choice.message.content for choice in completion.choices] == ["4", "4"]
    assert [choice.logprobs for choice in completion.choices] == [None, None]
    reply = json.loads(recorded(proxy, "test_the_openai_client_gets_its_completion").reply)
    assert [choice["prompt_token_ids"] for choice in reply["choices"]] == [[1, 2, 3], [1, 2, 3]]


def test_a_harness_that_streams_gets_a_stream_made_of_the_whole_reply(
    client: openai.OpenAI, proxy: Proxy, backend: Backend
) -> None:
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model="m", messages=QUESTION, stream=True, stream_options=options
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "4"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 5
    (received,) = backend.received
    assert received.json["stream"] is False
    assert "stream_options" not in received.json
    exchange = recorded(proxy, "test_a_harness_that_streams_gets_a_stream_made_of_the_whole_reply")
    assert json.loads(exchange.request)["stream"] is True


def test_the_openai_stream_helper_puts_the_completion_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="m", messages=QUESTION) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content == "4"
    assert completion.choices[0].finish_reason == "stop"


def test_a_stream_has_an_event_streams_type_and_its_right_length(proxy: Proxy) -> None:
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
    answer = proxy.ask("POST", "/group/sse/v1/chat/completions", body, JSON)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert "transfer-encoding" not in answer.headers
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_an_error_of_the_backend_passes_as_it_is(proxy: Proxy, backend: Backend) -> None:
    error = b'{"object": "error",  "message": "too long", "code": 400}'
    backend.script = lambda received: Reply(error, status=400)
    streaming = json.dumps({"model": "m", "messages": QUESTION, "stream": True}).encode()
    for body in (BODY, streaming):
        answer = proxy.ask("POST", "/group/error/v1/chat/completions", body, JSON)
        assert (answer.status, answer.body) == (400, error)
        assert answer.headers["content-type"] == "application/json"
    assert [(found.outcome, found.status, found.reply) for found in proxy.exchanges("error")] == [
        ("complete", 400, error)
    ] * 2


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b'{"messages": ', b"\xff\xfe"])
def test_what_is_no_json_object_is_forwarded_untouched_and_recorded(
    proxy: Proxy, backend: Backend, body: bytes
) -> None:
    backend.script = lambda received: Reply(b"bad request", status=400, headers={})
    group_id = f"nojson-{body.hex()}"
    assert proxy.ask("POST", f"/group/{group_id}/v1/chat/completions", body).body == b"bad request"
    exchange = recorded(proxy, group_id)
    assert backend.received[0].body == exchange.request == exchange.forwarded() == body
    assert exchange.splices == ()


def test_a_compressed_request_is_recorded_as_it_came_and_forwarded_plain(
    proxy: Proxy, backend: Backend
) -> None:
    packed = gzip.compress(BODY)
    proxy.ask("POST", "/group/gzipped/v1/chat/completions", packed, JSON | {"content-encoding": "gzip"})
    exchange, (received,) = recorded(proxy, "gzipped"), backend.received
    assert exchange.request == packed
    assert exchange.forwarded() == received.body
    assert received.json | json.loads(BODY) == received.json
    assert "content-encoding" not in received.headers
    assert received.headers["content-length"] == str(len(received.body))


def test_brotli_is_undone_for_the_backend_and_for_the_log_each_way(proxy: Proxy, backend: Backend) -> None:
    packed = brotli.compress(chat_reply({"logprobs": True}))
    backend.script = lambda received: Reply(packed, headers=JSON | {"content-encoding": "br"})
    answer = proxy.ask(
        "POST", "/group/br/v1/chat/completions", brotli.compress(BODY), JSON | {"content-encoding": "br"}
    )
    exchange, (received,) = recorded(proxy, "br"), backend.received
    assert answer.json["choices"][0]["message"]["content"] == "4"
    assert (exchange.request, exchange.forwarded()) == (BODY, received.body)
    assert exchange.reply_content() == chat_reply({"logprobs": True})
    assert received.json["return_meta_info"] is True


def test_an_encoding_that_cannot_be_undone_leaves_the_request_as_it_came(
    proxy: Proxy, backend: Backend
) -> None:
    headers = JSON | {"content-encoding": "gzip"}
    proxy.ask("POST", "/group/badgzip/v1/chat/completions", b"no gzip", headers)
    (received,) = backend.received
    assert (received.body, received.headers["content-encoding"]) == (b"no gzip", "gzip")
    assert recorded(proxy, "badgzip").request == b"no gzip"


def test_a_compressed_reply_is_recorded_as_it_came_and_handed_on_plain(
    proxy: Proxy, backend: Backend
) -> None:
    packed = gzip.compress(chat_reply({"logprobs": True}))
    backend.script = lambda received: Reply(packed, headers=JSON | {"content-encoding": "gzip"})
    answer = proxy.ask("POST", "/group/zipped/v1/chat/completions", BODY, JSON | {"accept-encoding": "gzip"})
    assert backend.received[0].headers["accept-encoding"] == "identity"
    assert "content-encoding" not in answer.headers
    assert answer.json["choices"][0]["message"]["content"] == "4"
    assert recorded(proxy, "zipped").reply == packed


def test_a_chunked_request_and_a_chunked_reply_are_recorded_without_their_framing(
    proxy: Proxy, backend: Backend
) -> None:
    backend.script = lambda received: Reply([chat_reply(received.json)[:9], chat_reply(received.json)[9:]])
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("POST", "/group/chunked/v1/chat/completions", iter([BODY[:5], BODY[5:]]), JSON)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    exchange = recorded(proxy, "chunked")
    assert json.loads(answer) == json.loads(chat_reply({"model": "m"}))
    assert response.headers["content-length"] == str(len(answer))
    assert "transfer-encoding" not in response.headers
    assert exchange.request == BODY
    assert exchange.forwarded() == backend.received[0].body
    assert exchange.reply == chat_reply(backend.received[0].json)


def test_a_harness_that_leaves_early_is_recorded_and_the_backend_let_go(
    proxy: Proxy, backend: Backend
) -> None:
    asked, closed = threading.Event(), []

    def hang(received: Received) -> Reply:
        asked.set()
        closed.append(received.wait_until_closed())
        done.set()
        return Reply(b"{}")

    done = threading.Event()
    backend.script = hang
    with socket.create_connection(("127.0.0.1", proxy.port)) as harness:
        harness.sendall(raw_request("/group/left/v1/chat/completions", BODY))
        assert asked.wait(20)
    assert done.wait(20)
    assert closed == [True]
    exchange = recorded(proxy, "left")
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("client_left", None, False)
    assert (exchange.request, exchange.reply) == (BODY, b"")
    assert exchange.forwarded() == backend.received[0].body


def test_a_backend_that_dies_within_its_reply_gives_502_in_openais_shape(
    proxy: Proxy, backend: Backend
) -> None:
    backend.script = lambda received: Reply(chat_reply(received.json), cut_after=40)
    answer = proxy.ask("POST", "/group/died/v1/chat/completions", BODY, JSON)
    assert answer.status == 502
    assert answer.json["error"].keys() == {"message", "type", "param", "code"}
    assert answer.json["error"]["code"] == "backend_failed"
    exchange = recorded(proxy, "died")
    assert (exchange.outcome, exchange.status, exchange.delivered) == ("backend_failed", 200, True)
    assert exchange.reply == chat_reply(backend.received[0].json)[:40]
    assert exchange.error is not None
    probes = len(backend.probes)
    backend.script = lambda received: Reply(chat_reply(received.json))
    assert proxy.ask("POST", "/group/died/v1/chat/completions", BODY, JSON).status == 200
    assert len(backend.probes) > probes  # it may be another server now


def test_a_harness_that_leaves_within_a_held_reply_is_recorded_with_what_had_come(
    proxy: Proxy, backend: Backend
) -> None:
    left, let_go = threading.Event(), threading.Event()

    def part(received: Received) -> Iterator[bytes]:
        yield b'{"id": '
        left.set()
        received.wait_until_closed()
        let_go.set()

    backend.script = lambda received: Reply(part(received))
    with socket.create_connection(("127.0.0.1", proxy.port)) as harness:
        harness.sendall(raw_request("/group/left-within/v1/chat/completions", BODY))
        assert left.wait(20)
        proxy.health()  # answered after what came before has been read
    assert let_go.wait(20)
    exchange = recorded(proxy, "left-within")
    assert (exchange.outcome, exchange.status, exchange.reply) == ("client_left", 200, b'{"id": ')


def test_an_event_stream_that_is_not_captured_passes_live(proxy: Proxy, backend: Backend) -> None:
    seen = threading.Event()

    def events() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        assert seen.wait(20)
        yield b"data: [DONE]\n\n"

    backend.script = lambda received: Reply(events(), headers={"content-type": "text/event-stream"})
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("POST", "/group/live/v1/completions", b'{"stream": true}', JSON)
    response = connection.getresponse()
    first = response.read1(100)
    seen.set()
    assert (first, response.read()) == (b"data: 1\n\n", b"data: [DONE]\n\n")
    connection.close()


def test_other_endpoints_pass_untouched_unrecorded_and_counted(proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: Reply(b"as it is", headers={"content-type": "text/plain", "x-a": "1"})
    before = proxy.health()["capture"]["uncaptured"].get("/generate", 0)
    body = b'{"text":  "hi", "stream": false}'
    answer = proxy.ask("POST", "/group/other/generate?y=2", body, JSON | {"accept-encoding": "br"})
    (received,) = backend.received
    assert (received.path, received.body) == ("/generate?y=2", body)
    assert received.headers["accept-encoding"] == "br"
    assert (answer.status, answer.body, answer.headers["x-a"]) == (200, b"as it is", "1")
    health = proxy.health()
    assert health["capture"]["uncaptured"]["/generate"] == before + 1
    assert any("/generate" in problem for problem in health["problems"])
    assert proxy.exchanges("other") == []


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/invocations", "/invocations"),
        ("/vertex_generate", "/vertex_generate"),
        ("/api/chat", "/api/chat"),
        ("/openai/v1/chat/completions?key=mine", "*/chat/completions"),
    ],
)
def test_a_chat_completion_at_another_url_passes_counted_and_said(
    proxy: Proxy, backend: Backend, path: str, named: str
) -> None:
    backend.script = lambda received: Reply(b"as it is")
    assert proxy.ask("POST", f"/group/elsewhere{path}", BODY, JSON).body == b"as it is"
    (received,) = backend.received
    assert (received.path, received.body) == (path, BODY)
    health = proxy.health()
    assert health["capture"]["uncaptured"][named] == 1
    (said,) = (problem for problem in health["problems"] if problem.startswith(f"{named} passes"))
    assert "/v1/chat/completions" in said
    assert proxy.exchanges("elsewhere") == []


def test_a_connection_is_kept_for_the_next_request(proxy: Proxy, backend: Backend) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    for _ in range(3):
        connection.request("POST", "/group/kept/v1/chat/completions", BODY, JSON)
        assert connection.getresponse().read()
        local_port = connection.sock.getsockname()[1]
    assert connection.sock.getsockname()[1] == local_port
    connection.close()
    ids = [exchange.exchange_id for exchange in proxy.exchanges("kept")]
    assert len(ids) == 3
    assert ids == sorted(set(ids))


def test_twenty_megabytes_pass_and_are_recorded_byte_for_byte(proxy: Proxy, backend: Backend) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x y " * 5_000_000}]}).encode()
    assert proxy.ask("POST", "/group/big/v1/chat/completions", body, JSON).status == 200
    exchange = recorded(proxy, "big")
    assert exchange.request == body
    assert exchange.forwarded() == backend.received[0].body


def test_many_harnesses_at_once_each_get_their_own_answer(proxy: Proxy, backend: Backend) -> None:
    backend.script = lambda received: Reply(
        chat_reply(received.json, content=received.json["messages"][0]["content"])
    )

    def three_turns(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
        for turn in range(3):
            said = f"{number}-{turn}"
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": said}]}).encode()
            connection.request("POST", f"/group/many/rollout/{number}/v1/chat/completions", body, JSON)
            answer = json.loads(connection.getresponse().read())
            assert answer["choices"][0]["message"]["content"] == said
        connection.close()

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(three_turns, range(32)))
    found = proxy.exchanges("many")
    assert len({exchange.exchange_id for exchange in found}) == 96
    assert {(exchange.rollout_id, said(exchange.request)) for exchange in found} == {
        (str(number), f"{number}-{turn}") for number in range(32) for turn in range(3)
    }
    assert all(reply_content(exchange.reply) == said(exchange.request) for exchange in found)


def test_secret_headers_never_reach_the_log_and_own_ones_never_the_backend(
    proxy: Proxy, backend: Backend
) -> None:
    secrets = {
        "Authorization": "Bearer sk-log-me-not",
        "Cookie": "sk-log-me-not",
        "X-API-Key": "sk-log-me-not",
        "Proxy-Authorization": "sk-log-me-not",
        "X-Turnstile-Key": "sk-log-me-not",
    }
    ids = {"X-Turnstile-Group": "by-header", "X-Turnstile-Rollout": "r7"}
    backend.script = lambda received: Reply(
        chat_reply(received.json), headers=JSON | {"x-api-key": "sk-log-me-not"}
    )
    answer = proxy.ask("POST", "/v1/chat/completions", BODY, JSON | secrets | ids)
    exchange, (received,) = recorded(proxy, "by-header"), backend.received
    assert exchange.rollout_id == "r7"
    assert {name: dict(exchange.request_headers)[name] for name in secrets} == dict.fromkeys(secrets, "")
    assert b"sk-log-me-not" not in proxy.log_bytes()
    assert received.headers["authorization"] == "Bearer sk-log-me-not"
    assert [name for name in received.headers if name.startswith("x-turnstile")] == []
    assert answer.headers["x-api-key"] == "sk-log-me-not"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/group/a%2Fb/v1/chat/completions", {}),
        ("/group/g/rollout/%20/v1/chat/completions", {}),
        ("/v1/chat/completions", {"X-Turnstile-Group": "a b"}),
    ],
)
def test_a_bad_id_gets_400_and_goes_no_further(
    proxy: Proxy, backend: Backend, path: str, headers: dict[str, str]
) -> None:
    answer = proxy.ask("POST", path, BODY, headers)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_id")
    assert backend.received == []


def test_whatever_host_a_request_names_it_goes_to_the_backend(proxy: Proxy, backend: Backend) -> None:
    line = "POST http://elsewhere.example/group/host/v1/chat/completions HTTP/1.1"
    heads = ("Host: elsewhere.example", f"Content-Length: {len(BODY)}", "Connection: close")
    request = "\r\n".join((line, *heads, "", "")).encode() + BODY
    with socket.create_connection(("127.0.0.1", proxy.port)) as harness:
        harness.sendall(request)
        assert harness.makefile("rb").read().startswith(b"HTTP/1.1 200")
    (received,) = backend.received
    assert received.path == "/v1/chat/completions"
    assert received.headers["host"] == f"127.0.0.1:{backend.port}"


def test_an_image_behind_a_web_address_is_refused_and_recorded_as_refused(
    proxy: Proxy, backend: Backend
) -> None:
    part = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()
    answer = proxy.ask("POST", "/group/image/v1/chat/completions", body, JSON)
    assert (answer.status, answer.json["error"]["code"]) == (400, "remote_image")
    assert backend.received == []
    exchange = recorded(proxy, "image")
    assert (exchange.outcome, exchange.status, exchange.request) == ("refused", None, body)


def test_a_backend_that_gives_no_ids_is_answered_for_and_complained_of_once(
    proxy: Proxy, backend: Backend
) -> None:
    backend.script = lambda received: Reply(chat_reply({"logprobs": True}))  # a router took the fields off
    for _ in range(2):
        answer = proxy.ask("POST", "/group/stripped/v1/chat/completions", BODY, JSON)
        assert answer.json == json.loads(chat_reply({"model": "m"}))
    lacking = ("prompt_token_ids", "sampled_token_ids")
    assert [exchange.missing for exchange in proxy.exchanges("stripped")] == [lacking, lacking]
    health = proxy.health()
    assert health["capture"]["missing"]["prompt_token_ids"] >= 2
    (problem,) = (problem for problem in health["problems"] if "prompt_token_ids" in problem)
    assert "--return-input-ids --return-output-ids" in problem
    proxy.ask("GET", "/v1/after-the-complaint")
    proxy.wait_for_line("/v1/after-the-complaint")
    complaints = [line for line in proxy.lines if "replies lack prompt_token_ids" in line]
    assert len(complaints) == 1


def raw_request(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def said(request: bytes) -> str:
    return str(json.loads(request)["messages"][0]["content"])


def reply_content(reply: bytes) -> str:
    return str(json.loads(reply)["choices"][0]["message"]["content"])
