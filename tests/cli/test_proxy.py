import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.backend import Backend, running_backend
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.cli.main import main
from turnstile.compiler.compilation import compile_logs
from turnstile.free_port import free_port
from turnstile.workers import port_of

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "2+2?"}]}).encode()


def two_free_ports() -> int:
    """The first of two neighbouring ports that were free a moment ago."""
    while True:
        port = free_port()
        with suppress(OSError, OverflowError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port


@contextmanager
def running(
    backend: Backend, log: Path, *arguments: object
) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """The command once it captures, and the URLs that it prints."""
    workers = 2 if "--workers" in arguments else 1
    command = [str(Path(sys.executable).with_name("turnstile")), "proxy", "--backend", backend.url]
    command += ["--log", str(log), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, [process.stdout.readline().strip() for _ in range(workers)]
        finally:
            process.kill()


def ask(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_workers_capture_into_one_directory_and_end_in_order(tmp_path: Path, how: signal.Signals) -> None:
    port, log = two_free_ports(), tmp_path / "traces"
    with (
        running_backend() as backend,
        running(backend, log, "--port", port, "--workers", 2) as (process, urls),
    ):
        assert urls == [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"]
        groups = [f"task-{number}" for number in range(6)]
        for group_id in groups:
            path = f"/group/{group_id}/v1/chat/completions"
            assert ask(port_of(group_id, port, 2), "POST", path, CHAT)[0] == 200
        process.send_signal(how)
        assert process.wait(30) == 0
        assert process.stderr is not None
        said = process.stderr.read()
    assert f"{port} + crc32(group_id) % 2" in said
    assert {sequence.group_id for sequence in compile_logs(log)} == set(groups)
    assert len(log_paths([log])) == 2
    for path in log_paths([log]):
        with open_log(path) as found:
            assert found.damage is None


def test_it_answers_as_mitmdump_with_the_addon_does(tmp_path: Path) -> None:
    port = free_port()
    options = ("--set", "turnstile_secret=k", "--set", "turnstile_streaming=live", "--port", port)
    with running_backend() as backend, running(backend, tmp_path / "log", *options) as (process, _):
        command_line = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        child = int(command_line.split()[0])
        assert b"turnstile_secret" not in Path(f"/proc/{child}/cmdline").read_bytes()
        assert ask(port, "GET", "/turnstile/health")[0] == 401
        status, health = ask(port, "GET", "/turnstile/health", x_turnstile_key="k")
        for _ in range(200):  # the probe of the backend is under way
            if health["backend"]["probed"]:
                break
            time.sleep(0.05)
            status, health = ask(port, "GET", "/turnstile/health", x_turnstile_key="k")
        assert (status, health["status"], health["backend"]["kind"]) == (200, "ok", "sglang")
        status, answer = ask(port, "POST", "/v1/chat/completions", CHAT, authorization="Bearer k")
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "4")
        backend.stop()
        status, answer = ask(port, "POST", "/v1/chat/completions", CHAT, authorization="Bearer k")
        assert (status, answer["error"]["code"]) == (502, "backend_failed")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--set", "turnstile_streaming=no"], 3, "did not start, see above"),
        (["--set", "turnstile_strict=1"], 3, "did not start, see above"),
        (["--set", "turnstile_log=x"], 2, "turnstile_log is --log here"),
        (["--set", "a=1", "--set", "a=2"], 2, "a is set twice"),
        (["--set", "a"], 2, "'a' has no value; expected NAME=VALUE"),
        (["--port", "65535", "--workers", "2"], 2, "there are no 2 ports from 65535 on"),
    ],
)
def test_what_cannot_be_meant_is_said(
    tmp_path: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    usual = ["proxy", "--backend", "http://127.0.0.1:9", "--log", str(tmp_path), "--port", str(free_port())]
    result = CliRunner().invoke(main, [*usual, *arguments])
    assert (result.exit_code, message in result.stderr) == (exit_code, True)
