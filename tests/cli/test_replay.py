import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.chat import as_without_turnstile, chat_request, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    body = chat_request()
    writer = LogWriter(tmp_path, program="test")
    writer.write([exchange(request=body, splices=ask_chat(body, None).splices, reply=compact(completion()))])
    path = Path(writer.position.path)
    writer.close()
    return path


def start(*arguments: str) -> "subprocess.Popen[str]":
    script = "from turnstile.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", script, "replay", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_log_is_served_until_the_command_is_ended(log: Path, ending: signal.Signals) -> None:
    with start(str(log), "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline())
        ready = process.stderr.readline()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("POST", "/v1/chat/completions", chat_request())
        answer = connection.getresponse().read()
        connection.close()
        process.send_signal(ending)
        rest = process.communicate(timeout=20)
    assert ready == f"Replaying 1 exchanges at http://127.0.0.1:{port}\n"
    assert answer == compact(as_without_turnstile(completion()))
    assert (process.returncode, *rest) == (0, "", "")


def test_a_named_port_is_not_printed_on_stdout(log: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with start(str(log.parent), "--port", str(port)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Replaying 1 exchanges at http://127.0.0.1:{port}\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "")


def test_a_taken_port_is_a_usage_error(log: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["replay", str(log), "--port", str(port)])
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in result.stderr


def test_what_is_no_log_is_invalid_input(tmp_path: Path) -> None:
    (tmp_path / "x.tslog").write_bytes(b"no log")
    for path in (tmp_path, tmp_path / "x.tslog", tmp_path / "none"):
        result = CliRunner().invoke(main, ["replay", str(path), "--port", "0"])
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr.startswith("Error: ")


def test_a_torn_log_is_served_with_a_warning(log: Path) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    with start(str(log), "--port", "0") as process:
        assert process.stderr is not None
        lines = [process.stderr.readline(), process.stderr.readline()]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert lines[0].startswith(f"Warning: {log}: ")
    assert lines[1].startswith("Replaying 1 exchanges at ")


def test_help_ends_with_an_example() -> None:
    result = CliRunner().invoke(main, ["replay", "--help"])
    assert "turnstile replay traces/ --port 30000" in result.stdout.split("Example:")[-1]
