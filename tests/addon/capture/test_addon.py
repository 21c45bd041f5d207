"""The addon's life in a real mitmdump: how it starts, is reloaded, fails and ends."""

import ast
import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

import turnstile.addon.capture
from tests.support.backend import (
    EVENT_STREAM,
    Backend,
    Received,
    Reply,
    chat_reply,
    chat_stream,
    running_backend,
)
from tests.support.mitmdump import SCRIPT, Proxy, full_disk, running_mitmdump, started_mitmdump
from turnstile.addon.tracelog.reader import log_paths, open_log

CHAT = "/group/g/v1/chat/completions"
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}'
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def own_backend() -> Iterator[Backend]:
    with running_backend() as backend:
        yield backend


def hold(backend: Backend) -> tuple[threading.Event, threading.Event]:
    """Makes the backend wait, in a stream behind its first event: (a request came, let it be answered)."""
    came, go = threading.Event(), threading.Event()

    def stream(received: Received) -> Iterator[bytes]:
        first, *others = chat_stream(received.json, "4")
        yield first
        assert go.wait(20)
        yield from others

    def answer(received: Received) -> Reply:
        if received.json.get("stream"):
            return Reply(stream(received), headers=EVENT_STREAM)
        came.set()
        assert go.wait(20)
        return Reply(chat_reply(received.json))

    backend.script = answer
    return came, go


@contextlib.contextmanager
def begun_stream(proxy: Proxy) -> Iterator[http.client.HTTPResponse]:
    """A stream of which the first event has been read."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("POST", CHAT, json.dumps(json.loads(BODY) | {"stream": True}))
    response = connection.getresponse()
    first = chat_stream({"model": "m"}, "4")[0]
    assert response.read(len(first)) == first
    try:
        yield response
    finally:
        connection.close()


# --- how it starts


REVERSE = ("--mode", f"reverse:{NOWHERE}")
OTHER_SCRIPT = """
class Other:
    def load(self, loader):
        loader.add_option("other_number", int, 1, "")

addons = [Other()]
"""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            (*REVERSE, "--set", "turnstile_durability=never"),
            "turnstile: turnstile_durability='never': expected record or fsync or batch",
        ),
        ((), "turnstile: --mode regular: expected reverse:http://HOST:PORT or reverse:https://HOST:PORT"),
        ((*REVERSE, "--set", "turnstile_log=/dev/null/log"), "/dev/null/log"),
        (
            (*REVERSE, "--set", "turnstile_moe=off", "--set", "turnstile_moe=full"),
            "turnstile: turnstile_moe: expected one text, --set turnstile_moe=VALUE; found 2 values",
        ),
        (
            (*REVERSE, "-s", "other.py", "--set", "other_number=many"),
            "turnstile: mitmproxy did not take the addon, most likely for a bad option of another script",
        ),
    ],
)
def test_what_cannot_be_honoured_ends_mitmdump_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    (tmp_path / "other.py").write_text(OTHER_SCRIPT)
    monkeypatch.chdir(tmp_path)
    listen = ("--listen-host", "127.0.0.1", "-p", "0")
    # the other script comes before
    with started_mitmdump(*arguments, "-s", str(SCRIPT), *listen, log_directory=tmp_path) as proxy:
        assert proxy.process.wait(20) != 0
        proxy.stop()
    (said,) = (each for each in proxy.lines if "turnstile: " in each)
    assert line in said
    assert not any("Traceback" in each for each in proxy.lines)
    assert not list(tmp_path.rglob("*.tslog"))


def test_showing_a_file_of_flows_captures_nothing(tmp_path: Path) -> None:
    flows, log = tmp_path / "flows.mitm", tmp_path / "log"
    with flows.open("wb") as file:
        FlowWriter(file).add(tflow.tflow(resp=True))
    arguments = ("-n", "-r", str(flows), "-s", str(SCRIPT), "--set", f"turnstile_log={log}")
    with started_mitmdump(*arguments, log_directory=log) as proxy:
        assert proxy.process.wait(20) == 0
        proxy.stop()
    assert any("http://address:22/path" in line for line in proxy.lines)
    assert not log.exists()


def test_a_flow_from_a_file_is_not_captured_while_serving(own_backend: Backend, tmp_path: Path) -> None:
    flows = tmp_path / "flows.mitm"
    old = tflow.tflow(resp=True)
    old.request.method, old.request.path = "POST", CHAT
    with flows.open("wb") as file:
        FlowWriter(file).add(old)
    arguments = ("-r", str(flows), "--set", "keepserving=true")
    with running_mitmdump(own_backend.url, tmp_path / "log", *arguments) as proxy:
        proxy.wait_for_line("chat/completions")
        assert proxy.exchanges() == []
        assert proxy.health()["capture"]["captured"] == 0


def test_a_backend_that_is_down_gets_502_and_is_asked_what_it_is_once_it_is_up(log_directory: Path) -> None:
    with running_backend() as gone:
        port = gone.port
    with running_mitmdump(f"http://127.0.0.1:{port}", log_directory) as proxy:
        assert proxy.ask("GET", "/turnstile/health").status == 200
        answer = proxy.ask("POST", CHAT, BODY)
        assert (answer.status, answer.json["error"]["code"]) == (502, "backend_failed")
        health = proxy.health()
        assert health["backend"]["probed"] is False
        assert "cannot be reached" in health["backend"]["problem"]
        with running_backend(port):
            assert proxy.ask("POST", CHAT, BODY).status == 200
            assert proxy.health()["backend"]["version_text"] == "0.5.23"
        failed, complete = proxy.exchanges()
        assert (failed.outcome, failed.status, failed.backend) == ("backend_failed", None, None)
        assert (complete.outcome, complete.backend is not None) == ("complete", True)


def test_options_are_read_while_configuring_and_never_in_a_hook() -> None:
    readers = []
    for path in Path(turnstile.addon.capture.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                reads = any(ast.unparse(node) == "ctx.options" for node in ast.walk(function))
                readers += [(path.name, function.name)] if reads else []
    assert sorted(readers) == [("addon.py", "configure"), ("addon.py", "load")]


CHANGING = """
from mitmproxy import ctx
from mitmproxy.exceptions import OptionsError
from mitmproxy.http import Response
from turnstile.addon.capture import addon

class Changing:
    def response(self, flow):
        try:
            ctx.options.update(turnstile_moe="off")
        except OptionsError as error:
            flow.response.headers["x-change"] = str(error)

addons = [addon(), Changing()]
"""


def test_options_do_not_change_under_a_running_capture(own_backend: Backend, tmp_path: Path) -> None:
    script = tmp_path / "changing.py"
    script.write_text(CHANGING)
    with running_mitmdump(own_backend.url, tmp_path / "log", script=script) as proxy:
        answer = proxy.ask("POST", "/turnstile/flush")
        assert answer.headers["x-change"] == (
            "turnstile: options cannot be changed while capturing; start the proxy anew"
        )
        assert proxy.ask("POST", CHAT, BODY).status == 200
        assert len(proxy.exchanges()) == 1


UNKNOWN_MITMPROXY = """
import sys

for name in [name for name in sys.modules if name.startswith("turnstile")]:
    del sys.modules[name]  # the addon is imported into such a mitmproxy

from mitmproxy.proxy.layers.http import HttpStream

real = HttpStream.handle_protocol_error
HttpStream.handle_protocol_error = lambda self, event, more=None: real(self, event)

from turnstile.addon.capture import addon
addons = [addon()]
"""


@pytest.mark.parametrize("streaming", ["live", "auto"])
def test_a_mitmproxy_of_other_insides_is_refused_where_streams_may_be_live(
    own_backend: Backend, tmp_path: Path, streaming: str
) -> None:
    script, log = tmp_path / "unknown.py", tmp_path / "log"
    script.write_text(UNKNOWN_MITMPROXY)
    arguments = ("-s", str(script), "--mode", f"reverse:{own_backend.url}", "-p", "0")
    options = ("--set", f"turnstile_log={log}", "--set", f"turnstile_streaming={streaming}")
    with started_mitmdump(*arguments, *options, log_directory=log) as proxy:
        assert proxy.process.wait(20) != 0
        proxy.stop()
    (said,) = (line for line in proxy.lines if "turnstile: " in line)
    assert "HttpStream.handle_protocol_error takes (self, event, more), not (self, event)" in said
    assert "set turnstile_streaming=buffered" in said
    assert not any("Traceback" in line for line in proxy.lines)
    assert not log.exists()


def test_a_mitmproxy_of_other_insides_captures_whole_replies(own_backend: Backend, tmp_path: Path) -> None:
    script = tmp_path / "unknown.py"
    script.write_text(UNKNOWN_MITMPROXY)
    with running_mitmdump(own_backend.url, tmp_path / "log", script=script, streaming="buffered") as proxy:
        assert proxy.ask("POST", CHAT, BODY).status == 200
        assert len(proxy.exchanges()) == 1
        assert proxy.stop() == 0
    assert len([line for line in proxy.lines if "is not one that Turnstile knows" in line]) == 1


# --- the secret


def test_with_a_secret_every_url_needs_it_and_the_backend_never_sees_it(
    own_backend: Backend, log_directory: Path
) -> None:
    secret = "s3cr3t-of-the-proxy"
    bearer, own_key = {"Authorization": f"Bearer {secret}"}, {"X-Turnstile-Key": secret}
    # not even where the user redacts nothing
    options = {"secret": secret, "redact_headers": ""}
    with running_mitmdump(own_backend.url, log_directory, **options) as proxy:
        for wrong in ({}, {"Authorization": "Bearer wrong"}, {"X-Turnstile-Key": ""}):
            for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/turnstile/health")):
                answer = proxy.ask(method, path, BODY, wrong)
                assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")
        assert own_backend.received == []
        assert proxy.ask("GET", "/turnstile/health", headers=bearer).json["capture"]["rejected"] == 9
        assert proxy.ask("POST", CHAT, BODY, bearer).status == 200
        assert (
            proxy.ask("POST", CHAT, BODY, own_key | {"Authorization": "Bearer of-the-backend"}).status == 200
        )
        first, second = own_backend.received
        assert "authorization" not in first.headers
        assert second.headers["authorization"] == "Bearer of-the-backend"
        assert "x-turnstile-key" not in second.headers
        assert proxy.ask("POST", "/turnstile/flush", headers=own_key).status == 200
        assert len(proxy.logged()) == 2
        assert secret.encode() not in proxy.log_bytes()
        proxy.stop()
    assert not any(secret in line for line in proxy.lines)


# --- a log that cannot be written


def test_an_exchange_that_cannot_be_written_is_refused_until_the_log_can_be_written_again(
    own_backend: Backend, log_directory: Path
) -> None:
    with running_mitmdump(own_backend.url, log_directory) as proxy:
        assert proxy.ask("POST", CHAT, BODY).status == 200
        with full_disk(proxy):
            for _ in range(2):
                answer = proxy.ask("POST", CHAT, BODY)
                assert (answer.status, answer.json["error"]["code"]) == (507, "capture_failed")
            health = proxy.ask("GET", "/turnstile/health")
            assert (health.status, health.json["status"]) == (503, "cannot_write")
            assert proxy.ask("POST", "/turnstile/flush").status == 507
        assert proxy.ask("POST", CHAT, BODY).status == 200
        health = proxy.ask("GET", "/turnstile/health")
        assert (health.status, health.json["capture"]["write_errors"]) == (200, 2)
        assert len(proxy.exchanges()) == 2
        assert proxy.stop() == 0
    assert len([line for line in proxy.lines if "CANNOT RECORD" in line]) == 1


def test_with_pass_the_harness_gets_its_answer_and_the_console_a_loud_line(
    own_backend: Backend, log_directory: Path
) -> None:
    with running_mitmdump(own_backend.url, log_directory, on_log_error="pass") as proxy:
        with full_disk(proxy):
            for _ in range(2):
                assert proxy.ask("POST", CHAT, BODY).json == json.loads(chat_reply({"model": "m"}))
            assert proxy.health()["capture"]["write_errors"] == 2
            assert proxy.ask("GET", "/turnstile/health").status == 503
        proxy.stop()
        assert proxy.logged() == []
    assert len([line for line in proxy.lines if "CANNOT RECORD" in line]) == 1


# --- reloads of the script


def test_capture_goes_on_through_reloads_of_the_script_even_broken_ones(
    own_backend: Backend, tmp_path: Path
) -> None:
    script = tmp_path / "turnstile_addon.py"
    script.write_text(SCRIPT.read_text())
    came, go = hold(own_backend)
    with (
        running_mitmdump(own_backend.url, tmp_path / "log", script=script, streaming="live") as proxy,
        ThreadPoolExecutor(1) as pool,
        begun_stream(proxy) as stream,
    ):
        before = pool.submit(proxy.ask, "POST", CHAT, BODY)
        assert came.wait(20)
        save(script, SCRIPT.read_text() + "# saved again\n", at=1)
        proxy.wait_for_line("Loading script.*")
        proxy.lines.clear()
        proxy.wait_for_line("Loading script.*")
        go.set()
        assert before.result().json == json.loads(chat_reply({"model": "m"}))
        assert stream.read() == b"".join(chat_stream({"model": "m"}, "4")[1:])
        save(script, "this is no Python", at=2)
        proxy.wait_for_line("capture goes on with the code in memory")
        assert proxy.ask("POST", CHAT, BODY).status == 200
        proxy.lines.clear()
        save(script, SCRIPT.read_text(), at=3)
        proxy.wait_for_line("Loading script.*")
        assert proxy.ask("POST", CHAT, BODY).status == 200
        assert [exchange.outcome for exchange in proxy.exchanges()] == ["complete"] * 4
        assert proxy.stop() == 0
    assert len(log_paths([tmp_path / "log"])) == 1
    assert not any("already exists" in line for line in proxy.lines)


def save(script: Path, text: str, *, at: int) -> None:
    """Writes the script with a time of change that is later than every one before."""
    script.write_text(text)
    later = script.stat().st_mtime + 10 * at
    os.utime(script, (later, later))


# --- faults of our own


FAULTY = """
from turnstile.addon.capture import addon, chat_requests, flows, held_replies

def faulty(module, name):
    real = getattr(module, name)

    def function(first, *others, **named):
        if name.encode() in (first.path.encode() if name == "admit" else first):
            raise RuntimeError("Prompt and Key")
        return real(first, *others, **named)

    setattr(module, name, function)

faulty(flows, "admit")
faulty(chat_requests, "ask_chat")
faulty(held_replies, "restore_chat")
addons = [addon()]
"""


def test_a_fault_of_our_own_loses_no_exchange_and_no_answer_silently(
    own_backend: Backend, tmp_path: Path
) -> None:
    def body(name: str, **more: bool) -> bytes:
        return json.dumps({"model": name, "messages": []} | more).encode()  # the reply repeats the model

    script = tmp_path / "faulty.py"
    script.write_text(FAULTY)
    with running_mitmdump(own_backend.url, tmp_path / "log", script=script) as proxy:
        routed = proxy.ask("POST", "/group/admit/v1/chat/completions", BODY)
        asked = proxy.ask("POST", CHAT, body("ask_chat"))
        restored = proxy.ask("POST", CHAT, body("restore_chat"))
        streamed = proxy.ask("POST", CHAT, body("restore_chat", stream=True))
        assert proxy.health()["capture"]["own_errors"] == 4
        proxy.stop()
        found = proxy.logged()
    # without a route nothing can be forwarded
    assert (routed.status, routed.json["error"]["code"]) == (500, "turnstile_error")
    # without its fields a request still goes as it came, and a reply as the backend gave it
    assert (asked.status, asked.body) == (200, chat_reply({"model": "ask_chat"}))
    assert (restored.status, restored.body) == (200, found[1].reply)
    # what was asked for without streaming cannot be handed on as a stream
    assert (streamed.status, streamed.json["error"]["code"]) == (500, "turnstile_error")
    assert [exchange.reply for exchange in found] == [
        chat_reply(received.json) for received in own_backend.received
    ]
    assert [exchange.delivered for exchange in found] == [True, True, False]
    assert [exchange.error for exchange in found] == [
        "Turnstile failed while adding fields to a request: RuntimeError",
        "Turnstile failed while restoring a reply: RuntimeError",
        "Turnstile failed while restoring a reply: RuntimeError",
    ]
    said = [line for line in proxy.lines if "OWN ERROR" in line]
    assert len(said) == 3  # each once
    assert all("RuntimeError at" in line and "faulty.py:9" in line for line in said)
    assert not any("Prompt and Key" in line for line in proxy.lines)


FAULTY_ONCE_IT_ENDS = """
from turnstile.addon.capture import addon, flows, held_replies, live_replies

def fail(*_, **__):
    raise RuntimeError("Prompt and Key")

held_replies.is_refused = live_replies.record_stream = flows.record_early = fail
addons = [addon()]
"""


@pytest.mark.parametrize("on_log_error", ["fail", "pass"])
def test_an_exchange_is_recorded_whatever_fails_once_it_ends(
    own_backend: Backend, tmp_path: Path, on_log_error: str
) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY_ONCE_IT_ENDS)
    options = {"streaming": "live", "on_log_error": on_log_error}
    with running_mitmdump(own_backend.url, tmp_path / "log", script=script, **options) as proxy:
        answer = proxy.ask("POST", CHAT, BODY)
        own_backend.script = lambda received: Reply(chat_reply(received.json), cut_after=40)
        cut = proxy.ask("POST", CHAT, BODY)
        own_backend.script = lambda received: Reply(chat_stream(received.json, "4"), headers=EVENT_STREAM)
        stream = proxy.ask("POST", CHAT, json.dumps(json.loads(BODY) | {"stream": True}).encode())
        found = proxy.exchanges()
        health = proxy.health()["capture"]
    fails = on_log_error == "fail"
    if fails:
        assert (answer.status, answer.json["error"]["code"]) == (500, "turnstile_error")
    else:
        assert (answer.status, answer.body) == (200, found[0].reply)
    assert (cut.status, cut.json["error"]["code"]) == (502, "backend_failed")
    assert (b"turnstile_error" in stream.body) == fails
    assert [(each.outcome, each.status, each.delivered) for each in found] == [
        ("complete", 200, not fails),
        ("backend_failed", 200, True),
        ("complete", 200, not fails),
    ]
    assert found[0].reply == chat_reply(json.loads(found[0].forwarded()))
    assert found[1].reply == chat_reply(json.loads(found[1].forwarded()))[:40]
    assert found[2].reply == b"".join(chat_stream(json.loads(found[2].forwarded()), "4"))
    assert all("RuntimeError" in (each.error or "") for each in found)
    assert (health["in_flight"], health["own_errors"], health["captured"]) == (0, 3, 3)
    assert not any("Prompt and Key" in line for line in proxy.lines)


# --- how it ends


def test_what_is_under_way_when_the_proxy_stops_is_recorded_once_as_interrupted(
    own_backend: Backend, log_directory: Path
) -> None:
    came, go = hold(own_backend)
    with running_mitmdump(own_backend.url, log_directory, streaming="live") as proxy, begun_stream(proxy):
        with socket.create_connection(("127.0.0.1", proxy.port)) as harness:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(BODY)}\r\n\r\n"
            harness.sendall(head.encode() + BODY)
            assert came.wait(20)
            assert proxy.stop(signal.SIGTERM) == 0
        go.set()
        stream, whole = proxy.logged()
    assert (whole.outcome, whole.status, whole.delivered) == ("interrupted", None, False)
    assert (whole.request, whole.reply) == (BODY, b"")
    assert (stream.outcome, stream.status, stream.delivered) == ("interrupted", 200, False)
    assert stream.reply == chat_stream(json.loads(stream.forwarded()), "4")[0]


def test_a_killed_proxy_has_logged_every_exchange_whose_reply_was_read_to_its_end(
    own_backend: Backend, log_directory: Path
) -> None:
    read: list[str] = []
    enough, killed = threading.Event(), threading.Event()

    def answer(received: Received) -> Reply:
        if len(own_backend.received) > 60:  # these are under way when the proxy is killed
            killed.wait(20)
        return Reply(chat_reply(received.json))

    own_backend.script = answer

    def ask(proxy: Proxy, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
        with contextlib.suppress(OSError, http.client.HTTPException):
            for turn in range(10):
                said = f"{number}-{turn}"
                body: Any = {"model": "m", "messages": [{"role": "user", "content": said}]}
                connection.request("POST", CHAT, json.dumps(body))
                response = connection.getresponse()
                response.read()
                assert response.status == 200
                read.append(said)
                if len(read) >= 40:
                    enough.set()
        connection.close()

    with running_mitmdump(own_backend.url, log_directory) as proxy, ThreadPoolExecutor(10) as pool:
        asking = [pool.submit(ask, proxy, number) for number in range(10)]
        assert enough.wait(20)
        proxy.stop(signal.SIGKILL)
        killed.set()
        for one in asking:
            one.result()
        with open_log(*log_paths([log_directory])) as log:
            logged = {json.loads(found.request)["messages"][0]["content"] for _, found in log.exchanges()}
    assert set(read) <= logged
    assert 40 <= len(read) < 100
