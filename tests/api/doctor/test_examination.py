import base64
import json
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import turnstile
from tests.support.backend import (
    EVENT_STREAM,
    MODEL_INFO,
    Received,
    Reply,
    chat_reply,
    chat_stream,
    running_backend,
)
from turnstile.doctor import Report, examine

PARSERS = {"tool_call_parser": "qwen25"}


def sglang(received: Received) -> Reply:
    """What SGLang 0.5.23 answers to all that a doctor asks."""
    if received.path == "/v1/models":
        return Reply(b'{"data": [{"id": "m"}]}')
    if received.path == "/tokenize":
        return Reply(b'{"tokens": [1, 2, 3], "count": 3}')
    if received.path != "/v1/chat/completions":
        return Reply(b"{}", status=404)
    asked = received.json
    if asked.get("stream"):
        return Reply(chat_stream(asked, "a", "b"), headers=EVENT_STREAM)
    reply = json.loads(chat_reply(asked))
    given = asked.get("input_ids")
    if given is not None:
        for choice in reply["choices"]:
            choice["prompt_token_ids"] = given
            choice["meta_info"]["prompt_tokens"] = len(given)
        reply["usage"]["prompt_tokens"] = len(given)
    return Reply(json.dumps(reply).encode())


def router(received: Received) -> Reply:
    """The same behind a router that knows its own fields only."""
    if received.path == "/workers":
        return Reply(b'{"workers": [{"url": "http://127.0.0.1:1"}]}')
    if received.path == "/v1/chat/completions":
        kept = ("model", "messages", "max_tokens", "logprobs", "stream")
        fields = {name: value for name, value in received.json.items() if name in kept}
        received.body = json.dumps(fields).encode()
    return sglang(received)


def examined(
    script: Callable[[Received], Reply], *, api_key: str | None = None, **server_info: Any
) -> Report:
    with running_backend(server_info=PARSERS | server_info) as backend:
        backend.script = script
        return examine(backend.url, api_key)


def found(report: Report) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def advice(report: Report, name: str) -> str:
    (check,) = (check for check in report.checks if check.name == name)
    return check.advice


ALL_WELL = {
    "reachable": "ok",
    "chat completions": "ok",
    "prompt token ids": "ok",
    "sampled token ids": "ok",
    "logprobs": "ok",
    "weight version": "ok",
    "live streams": "ok",
    "token-in": "ok",
    "token counts": "ok",
}


def test_a_server_that_tells_all_is_well() -> None:
    report = examined(sglang)
    assert (report.kind, report.version, report.complete) == ("sglang", "0.5.23", True)
    assert found(report) == ALL_WELL
    assert all(check.advice == "" for check in report.checks)


def test_every_request_is_a_tiny_one() -> None:
    seen: list[Received] = []

    def script(received: Received) -> Reply:
        seen.append(received)
        return sglang(received)

    examined(script)
    chats = [received.json for received in seen if received.path == "/v1/chat/completions"]
    assert [chat["max_tokens"] for chat in chats] == [4] * 3


def test_a_router_that_drops_fields_is_told_from_a_server_that_lacks_them() -> None:
    report = examined(router)
    assert (report.kind, report.complete) == ("router", False)
    statuses = found(report)
    assert [name for name, status in statuses.items() if status == "missing"] == [
        "router",
        "prompt token ids",
        "sampled token ids",
    ]
    assert statuses["token-in"] == "unknown"
    assert "name a worker (GET /workers lists them)" in advice(report, "router")
    assert "--return-input-ids --return-output-ids" in advice(report, "prompt token ids")


def test_something_else_that_drops_fields_is_recognised_by_the_version() -> None:
    def script(received: Received) -> Reply:
        return sglang(received) if received.path == "/workers" else router(received)

    report = examined(script)
    assert (report.kind, found(report)["router"]) == ("sglang", "missing")


def test_a_server_too_old_is_to_be_upgraded() -> None:
    report = examined(router_without_workers, version="0.5.9")
    assert "router" not in found(report)
    assert advice(report, "prompt token ids") == "upgrade SGLang 0.5.9 to 0.5.13 or later"
    assert found(report)["live streams"] == "off"


def router_without_workers(received: Received) -> Reply:
    return sglang(received) if received.path == "/workers" else router(received)


def test_without_a_parser_streams_are_doubtful_and_nothing_is_missing() -> None:
    report = examined(sglang, tool_call_parser=None)
    assert report.complete
    assert found(report) == ALL_WELL | {"live streams": "off"}
    assert "--reasoning-parser or --tool-call-parser" in advice(report, "live streams")


def test_a_stream_that_lost_a_logprob_is_off() -> None:
    def script(received: Received) -> Reply:
        asked = received.json if received.path == "/v1/chat/completions" else {}
        return (
            Reply(chat_stream(asked, "a", stops=True), headers=EVENT_STREAM)
            if asked.get("stream")
            else sglang(received)
        )

    report = examined(script)
    (check,) = (check for check in report.checks if check.name == "live streams")
    assert (check.status, check.found) == ("off", "lack logprobs")


def test_logprobs_that_do_not_match_the_ids_are_missing() -> None:
    def script(received: Received) -> Reply:
        reply = sglang(received)
        if received.path == "/v1/chat/completions" and not received.json.get("stream"):
            fields = json.loads(bytes(reply.body))  # type: ignore[arg-type]
            fields["choices"][0]["meta_info"]["output_token_logprobs"].pop()
            return Reply(json.dumps(fields).encode())
        return reply

    assert not examined(script).complete


def test_a_model_with_experts_wants_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"num_experts": 4, "num_hidden_layers": 3, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setitem(MODEL_INFO, "model_path", str(tmp_path))
    report = examined(sglang)
    assert (report.complete, found(report)["routed experts"]) == (True, "off")
    assert advice(report, "routed experts") == "start SGLang with --enable-return-routed-experts"
    assert found(examined(sglang, enable_return_routed_experts=True))["routed experts"] == "missing"


def test_a_model_is_known_to_have_experts_by_its_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODEL_INFO, "architectures", ["Qwen3MoeForCausalLM"])
    assert found(examined(sglang))["routed experts"] == "off"


def test_one_expert_is_none_to_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_experts": 1}))
    monkeypatch.setitem(MODEL_INFO, "model_path", str(tmp_path))
    assert found(examined(sglang)) == ALL_WELL


@pytest.mark.parametrize(("rows", "status"), [(4, "ok"), (5, "ok"), (3, "missing")])
def test_routed_experts_have_the_models_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, status: str
) -> None:
    config = {"num_experts": 4, "num_hidden_layers": 3, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setitem(MODEL_INFO, "model_path", str(tmp_path))

    def script(received: Received) -> Reply:
        reply = sglang(received)
        if received.path == "/v1/chat/completions" and received.json.get("return_routed_experts"):
            fields = json.loads(bytes(reply.body))  # type: ignore[arg-type]
            routing = base64.b64encode(bytes(rows * 3 * 2 * 4)).decode()
            fields["choices"][0]["meta_info"]["routed_experts"] = routing
            return Reply(json.dumps(fields).encode())
        return reply

    assert found(examined(script, enable_return_routed_experts=True))["routed experts"] == status


def test_images_are_asked_for_where_the_model_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODEL_INFO, "has_image_understanding", True)
    assert found(examined(sglang))["images"] == "ok"


def test_a_closed_port_is_not_reachable() -> None:
    report = examine("http://127.0.0.1:9")
    assert (report.kind, report.complete, found(report)) == ("unknown", False, {"reachable": "missing"})
    assert "Connection refused" in report.checks[0].found


def test_a_server_that_wants_a_key_says_so_and_takes_it() -> None:
    def guard(received: Received) -> Reply:
        if received.headers.get("authorization") != "Bearer the-key":
            return Reply(b"{}", status=401)
        infos = {"/server_info": backend.server_info, "/model_info": MODEL_INFO}
        return (
            Reply(json.dumps(infos[received.path]).encode()) if received.path in infos else sglang(received)
        )

    with running_backend(server_info=PARSERS) as backend:
        backend.guard, backend.script = guard, sglang
        report = examine(backend.url)
        assert (report.complete, advice(report, "reachable")) == (False, "name the server's key by --api-key")
        assert "the-key" not in json.dumps(report.as_record())
        assert examine(backend.url, "the-key").complete


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>It works!</html>")

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def web_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_web_server_is_no_backend(web_server: str) -> None:
    report = examine(web_server)
    assert (report.kind, report.complete) == ("unknown", False)
    assert report.checks[0].found == "no server that Turnstile knows"
    assert advice(report, "chat completions") == "name the URL of an SGLang server"


def test_of_a_proxy_its_backend_is_examined(tmp_path: Path) -> None:
    with running_backend(server_info=PARSERS) as backend:
        backend.script = sglang
        with turnstile.Proxy(backend.url, log_dir=tmp_path) as proxy:
            report = examine(f"http://{proxy.addr}")
            assert (report.kind, report.complete) == ("turnstile", True)
            assert found(report) == {"proxy": "ok", "recording": "ok", **ALL_WELL}
            assert proxy.get_training_sequences("default") == []
            backend.script = router
            base_url = f"http://{proxy.addr}"
            body = json.dumps({"model": "m", "messages": []}).encode()
            urllib.request.urlopen(f"{base_url}/v1/chat/completions", body).close()
            assert found(examine(base_url))["capture so far"] == "missing"


def test_a_proxy_that_wants_its_key_says_so() -> None:
    with running_backend(server_info=PARSERS) as backend:
        backend.script = sglang
        with turnstile.Proxy(backend.url, options={"turnstile_secret": "k"}) as proxy:
            report = examine(f"http://{proxy.addr}")
            assert (report.kind, report.complete) == ("turnstile", False)
            assert examine(f"http://{proxy.addr}", "k").complete


def test_a_backend_that_only_the_proxy_reaches_stays_open() -> None:
    with turnstile.Proxy("http://127.0.0.1:9", require_backend=False) as proxy:
        report = examine(f"http://{proxy.addr}")
    assert found(report)["backend"] == "unknown"
