import contextlib
import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.chat import (
    TOOL_CALL,
    as_without_turnstile,
    chat_request,
    choice,
    compact,
    completion,
    tool_call_choice,
)
from tests.support.exchanges import exchange
from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.probe import probe
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.recorded_replies import RecordedReplies
from turnstile.replay_server import ReplayServer

SGLANG = BackendFacts(
    kind="sglang",
    version=(0, 5, 23),
    version_text="0.5.23",
    model_path="/models/tiny",
    served_model_name="tiny",
    server_info={"version": "0.5.23", "tp_size": 1, "context_length": 1024},
    model_info={"model_path": "/models/tiny", "served_model_name": "tiny", "weight_version": "step-1"},
)
VLLM = BackendFacts(kind="vllm", version=(0, 33, 0), version_text="0.33.0", served_model_name="tiny")
CHAT = "/v1/chat/completions"


@contextlib.contextmanager
def replaying(
    folder: Path, *replies: dict[str, Any], facts: BackendFacts | None = SGLANG
) -> Iterator[ReplayServer]:
    """A server with these replies to the usual request."""
    body = chat_request()
    writer = LogWriter(folder, program="test")
    if facts is not None:
        writer.set_backend(facts.as_record())
    splices = ask_chat(body, facts).splices
    writer.write(
        [exchange(at, request=body, splices=splices, reply=compact(each)) for at, each in enumerate(replies)]
    )
    writer.close()
    with RecordedReplies([folder]) as recorded, ReplayServer(recorded, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def connection_to(server: ReplayServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        yield connection


def answered(
    server: ReplayServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes]:
    with connection_to(server) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_one_connection_carries_many_requests(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server, connection_to(server) as connection:
        for body in (chat_request(), b"{}", chat_request()):
            connection.request("POST", CHAT, body)
            answer = connection.getresponse()
            assert answer.version == 11
            assert (answer.read() == compact(as_without_turnstile(completion()))) is (answer.status == 200)


def test_the_openai_client_runs_against_a_log(tmp_path: Path) -> None:
    messages: Any = json.loads(chat_request())["messages"]
    with (
        replaying(tmp_path, completion(tool_call_choice()), completion()) as server,
        openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client,
    ):
        first = client.chat.completions.create(model="tiny", messages=messages)
        calls = first.choices[0].message.tool_calls
        assert calls is not None
        assert calls[0].id == TOOL_CALL["id"]
        with client.chat.completions.stream(model="tiny", messages=messages) as stream:
            assert stream.get_final_completion().choices[0].message.content == "4"
        with pytest.raises(openai.NotFoundError, match="No recorded exchange answers"):
            client.chat.completions.create(model="tiny", messages=messages, temperature=0.5)
        assert [model.id for model in client.models.list()] == ["tiny"]


def test_a_request_that_was_not_recorded_is_named_and_not_repeated(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server:
        status, body = answered(server, "POST", CHAT + "?x=1", chat_request(n=3))
    assert status == 404
    assert json.loads(body) == {
        "error": {
            "message": "No recorded exchange answers POST /v1/chat/completions "
            'with model "tiny" and 1 message(s). '
            "A request is answered when the log holds the same one; only how it wants to be answered "
            "(stream, logprobs, return_...) may differ.",
            "type": "invalid_request_error",
            "param": None,
            "code": "not_recorded",
        }
    }


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"messages":1}'])
def test_odd_requests_are_not_recorded_either(tmp_path: Path, body: bytes) -> None:
    with replaying(tmp_path, completion()) as server:
        assert answered(server, "POST", "/v1/other", body)[0] == 404
        assert answered(server, "GET", "/v1/other")[0] == 404


def test_bodies_may_come_chunked_or_compressed(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server:
        assert answered(server, "POST", CHAT, iter([chat_request()[:9], chat_request()[9:]]))[0] == 200
        packed = gzip.compress(chat_request())
        assert answered(server, "POST", CHAT, packed, **{"Content-Encoding": "gzip"})[0] == 200
        assert answered(server, "POST", CHAT, b"x", **{"Content-Encoding": "gzip"})[0] == 400


def test_a_probe_finds_the_recorded_backend(tmp_path: Path) -> None:
    for facts in (SGLANG, VLLM):
        with replaying(tmp_path / facts.kind, completion(), facts=facts) as server:
            found = probe(f"http://127.0.0.1:{server.port}", authorization=None, timeout_s=10)
        assert (found.kind, found.version, found.served_model_name) == (facts.kind, facts.version, "tiny")
        assert (found.server_info, found.model_info) == (facts.server_info, facts.model_info)


def test_the_old_names_of_the_endpoints_do_as_well(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server:
        assert answered(server, "GET", "/get_server_info") == answered(server, "GET", "/server_info")
        assert answered(server, "GET", "/get_model_info") == answered(server, "GET", "/model_info")
        assert answered(server, "GET", "/version")[0] == 404


def test_the_models_are_listed_as_the_backend_does(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server:
        status, body = answered(server, "GET", "/v1/models")
    assert (status, json.loads(body)["data"]) == (
        200,
        [
            {
                "id": "tiny",
                "object": "model",
                "created": 1000,
                "owned_by": "sglang",
                "root": "/models/tiny",
                "parent": None,
                "max_model_len": 1024,
            }
        ],
    )


def test_a_log_that_does_not_know_its_backend_is_served_all_the_same(tmp_path: Path) -> None:
    with replaying(tmp_path, completion(choice(response_token_ids=[1])), facts=None) as server:
        assert answered(server, "GET", "/server_info")[0] == 404
        assert answered(server, "GET", "/v1/models")[0] == 200
        assert answered(server, "POST", CHAT, chat_request())[1] == compact(
            as_without_turnstile(completion())
        )


@pytest.mark.parametrize("path", ["/health", "/health_generate", "/ready"])
def test_it_is_healthy_from_the_start(tmp_path: Path, path: str) -> None:
    with replaying(tmp_path, completion()) as server:
        assert answered(server, "GET", path) == (200, b"")


def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with replaying(tmp_path, completion()) as server, pytest.raises(OSError, match="in use"):
        ReplayServer(server.replies, "127.0.0.1", server.port)
