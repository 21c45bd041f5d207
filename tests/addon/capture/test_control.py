from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import Backend, Reply, running_backend
from tests.support.mitmdump import Proxy, running_mitmdump
from tests.support.moe_server import MoeServer

CHAT = b'{"model": "m", "messages": []}'


def error(body: Any) -> Any:
    assert body["error"].keys() == {"message", "type", "param", "code"}
    return body["error"]


def test_health_tells_version_backend_counters_and_where_the_log_is(proxy: Proxy, backend: Backend) -> None:
    proxy.ask("POST", "/group/health/v1/chat/completions", CHAT)
    proxy.ask("GET", "/v1/models")
    before = proxy.health()
    proxy.ask("POST", "/group/health/v1/chat/completions", CHAT)
    proxy.ask("GET", "/v1/models")
    proxy.ask("POST", "/group/bad%20id/v1/chat/completions", CHAT)
    answer = proxy.ask("GET", "/turnstile/health")
    after = answer.json
    assert answer.status == 200
    assert after["status"] == "ok"
    assert after["version"] == version("turnstile-rl")
    assert after["backend"]["url"] == backend.url
    assert (after["backend"]["kind"], after["backend"]["version_text"]) == ("sglang", "0.5.23")
    grown = ("captured", "passed_through", "rejected", "in_flight", "write_errors")
    assert {name: after["capture"][name] - before["capture"][name] for name in grown} == {
        "captured": 1,
        "passed_through": 1,
        "rejected": 1,
        "in_flight": 0,
        "write_errors": 0,
    }
    assert after["log"]["path"] == before["log"]["path"]
    assert after["log"]["offset"] > before["log"]["offset"]
    assert after["moe"] == {"mode": "auto", "asked": False}
    assert "server-secret" not in answer.body.decode()


def test_health_names_the_flag_of_a_server_that_does_not_report_its_experts(log_directory: Path) -> None:
    with running_backend(server_info={"enable_return_routed_experts": False}) as backend:
        backend.model_info["architectures"] = ["Qwen3MoeForCausalLM"]
        with running_mitmdump(backend.url, log_directory) as proxy:
            proxy.ask("POST", "/v1/chat/completions", CHAT)
            warned = proxy.wait_for_line("--enable-return-routed-experts")
            assert "INCOMPLETE" not in warned.string
            assert proxy.health()["moe"] == {"mode": "auto", "asked": False}
            (problem,) = proxy.health()["problems"]
            assert problem in warned.string
            backend.server_info["enable_return_routed_experts"] = True
            backend.script = lambda received: Reply(b"", status=502)
            proxy.ask("POST", "/v1/chat/completions", CHAT)  # it is started anew
            backend.script = MoeServer()
            proxy.ask("POST", "/v1/chat/completions", CHAT)
            assert proxy.health()["moe"] == {"mode": "auto", "asked": True}
            assert proxy.health()["problems"] == []


def test_after_a_flush_all_that_was_captured_is_readable(proxy: Proxy) -> None:
    for _ in range(3):
        proxy.ask("POST", "/group/flush/v1/chat/completions", CHAT)
    answer = proxy.ask("POST", "/turnstile/flush")
    assert (answer.status, answer.json["flushed"]) == (200, True)
    assert len(proxy.logged("flush")) == 3


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/turnstile", 404),
        ("GET", "/turnstile/nothing", 404),
        ("GET", "/turnstile/../health", 404),
        ("GET", "/turnstile/..%2Fetc", 404),
        ("GET", "/turnstile/x/../../turnstile/nothing", 404),
        ("GET", "/turnstile/groups", 405),
        ("PUT", "/turnstile/groups/g", 405),
        ("GET", "/turnstile/groups/g/reward", 405),
        ("GET", "/turnstile/groups/g/rewards", 404),
        ("GET", "/turnstile/groups/g/reward/x", 404),
        ("POST", "/turnstile/groups/..", 404),
        ("POST", "/turnstile/health", 405),
        ("GET", "/turnstile/flush", 405),
    ],
)
def test_what_there_is_not_is_said_in_openais_shape(
    proxy: Proxy, backend: Backend, method: str, path: str, status: int
) -> None:
    answer = proxy.ask(method, path)
    assert answer.status == status
    assert error(answer.json)["type"] == "invalid_request_error"
    assert (answer.headers.get("allow") is not None) == (status == 405)
    assert backend.received == []


def test_a_head_request_gets_no_body(proxy: Proxy) -> None:
    answer = proxy.ask("HEAD", "/turnstile/health")
    assert (answer.status, answer.body) == (200, b"")
