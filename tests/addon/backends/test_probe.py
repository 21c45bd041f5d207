import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from turnstile.addon.backends.errors import BackendNeedsKey, BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.probe import probe

SERVER_INFO = {
    "version": "0.5.23",
    "tp_size": 1,
    "model_path": "/models/at-launch",
    "served_model_name": "tiny",
    "enable_return_routed_experts": True,
    "api_key": "sk-of-the-server",
    "admin_api_key": "sk-of-the-admin",
    "launch_command": "--api-key sk-of-the-server",
    "internal_states": [{}],
}
MODEL_INFO = {"model_path": "/models/live", "served_model_name": "tiny-2", "weight_version": "step-7"}
VLLM_MODELS = {"object": "list", "data": [{"id": "tiny", "root": "/models/tiny", "max_model_len": 1024}]}


@contextlib.contextmanager
def serving(answers: Mapping[str, Any], key: str | None = None) -> Iterator[str]:
    """The URL of a server with JSON (or bytes, or a status) at these paths and 404 elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, 404)
            if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                answer = 401
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def facts_of(answers: Mapping[str, Any]) -> BackendFacts:
    with serving(answers) as url:
        return probe(url, authorization=None, timeout_s=5)


def test_sglang_is_known_by_its_own_endpoints() -> None:
    assert facts_of({"/server_info": SERVER_INFO, "/model_info": MODEL_INFO}) == BackendFacts(
        kind="sglang",
        version=(0, 5, 23),
        version_text="0.5.23",
        model_path="/models/live",
        served_model_name="tiny-2",
        server_info={
            "enable_return_routed_experts": True,
            "model_path": "/models/at-launch",
            "served_model_name": "tiny",
            "tp_size": 1,
            "version": "0.5.23",
        },
        model_info=MODEL_INFO,
    )


def test_secrets_of_the_server_are_not_kept() -> None:
    facts = facts_of({"/server_info": SERVER_INFO, "/model_info": MODEL_INFO})
    assert "sk-of-the" not in repr(facts)


def test_the_old_names_of_the_endpoints_do_as_well() -> None:
    facts = facts_of({"/get_server_info": SERVER_INFO, "/get_model_info": MODEL_INFO})
    assert (facts.kind, facts.version, facts.model_path) == ("sglang", (0, 5, 23), "/models/live")


def test_a_server_that_only_describes_its_model_is_sglang_of_unknown_version() -> None:
    facts = facts_of({"/model_info": {**MODEL_INFO, "tokenizer_path": "/models/live"}})
    assert (facts.kind, facts.version) == ("sglang", None)


def test_the_model_config_is_read_where_the_model_lies_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 151936}')
    facts = facts_of({"/server_info": SERVER_INFO, "/model_info": {"model_path": str(tmp_path)}})
    assert facts.vocab_size == 151936


@pytest.mark.parametrize("server_info", [404, {"vllm_config": "model='tiny'"}])
def test_vllm_is_known_by_its_version_endpoint(server_info: Any) -> None:
    answers = {"/server_info": server_info, "/version": {"version": "0.33.0"}, "/v1/models": VLLM_MODELS}
    assert facts_of(answers) == BackendFacts(
        kind="vllm",
        version=(0, 33, 0),
        version_text="0.33.0",
        model_path="/models/tiny",
        served_model_name="tiny",
    )


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/server_info": b"<html>", "/model_info": [1], "/version": b"", "/v1/models": {"data": []}},
        {"/server_info": 500, "/version": {"version": 5}, "/v1/models": {"data": ["tiny"]}},
        {"/server_info": b"[" * 100_000},
    ],
)
def test_what_speaks_neither_protocol_is_unknown(answers: Mapping[str, Any]) -> None:
    assert facts_of(answers) == BackendFacts(kind="unknown")


def test_a_backend_that_wants_a_key_says_so() -> None:
    with serving({"/server_info": SERVER_INFO}, key="right") as url:
        with pytest.raises(BackendNeedsKey, match=f"^{url}/server_info answers 401: .* none was sent"):
            probe(url, authorization=None, timeout_s=5)
        with pytest.raises(BackendNeedsKey, match="not accepted") as refused:
            probe(url, authorization="Bearer wrong", timeout_s=5)
        assert "wrong" not in str(refused.value)
        assert probe(url, authorization="Bearer right", timeout_s=5).kind == "sglang"


def test_nobody_at_the_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(BackendUnreachable, match=f"^{url}/server_info cannot be reached: .*refused"):
        probe(url, authorization=None, timeout_s=5)


def test_a_backend_that_does_not_answer_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BackendUnreachable, match="timed out"):
            probe(url, authorization=None, timeout_s=0.05)


def test_a_gateway_without_its_backend_is_unreachable() -> None:
    with serving({"/server_info": 503}) as url, pytest.raises(BackendUnreachable, match="answers 503"):
        probe(url, authorization=None, timeout_s=5)


def test_a_user_name_in_the_url_is_not_repeated() -> None:
    with pytest.raises(BackendUnreachable) as unreachable:
        probe("http://somebody:secret@127.0.0.1:1/base/", authorization=None, timeout_s=5)
    assert "secret" not in str(unreachable.value)


def test_proxies_of_the_environment_are_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert facts_of({"/server_info": SERVER_INFO}).kind == "sglang"
