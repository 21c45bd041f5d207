import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import running_backend
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.free_port import free_port

COMMAND: Any = [sys.executable, "-m", "turnstile.addon.capture.launcher"]


def environment(tmp_path: Path, **options: str) -> dict[str, str]:
    usual = {"mode": "reverse:http://127.0.0.1:9", "listen_host": "127.0.0.1", "listen_port": "0"}
    usual |= {"turnstile_log": str(tmp_path / "log"), "confdir": str(tmp_path / "conf"), "key_size": "1024"}
    return {
        **os.environ,
        "TURNSTILE_PROXY_OPTIONS": json.dumps(usual | options),
        "TURNSTILE_ENDS_WITH_STDIN": "1",
    }


def wait_until_it_answers(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/turnstile/health").close()
            return
        time.sleep(0.05)
    raise AssertionError("it does not answer")


def test_it_ends_in_order_and_leaves_a_whole_log(tmp_path: Path) -> None:
    with running_backend() as backend:
        process = subprocess.Popen(
            COMMAND,
            env=environment(tmp_path, mode=f"reverse:{backend.url}", listen_port=str(port := free_port())),
            stdin=subprocess.PIPE,
        )
        with process:
            url = f"http://127.0.0.1:{port}"
            wait_until_it_answers(url)
            urllib.request.urlopen(f"{url}/group/g/v1/chat/completions", b'{"messages": []}').close()
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 0
    (path,) = log_paths([tmp_path / "log"])
    with open_log(path) as log:
        ((_, exchange),) = log.exchanges("g")
        assert (exchange.outcome, exchange.status) == ("complete", 200)
        assert log.damage is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turnstile_moe": "some"}, "turnstile_moe='some': expected auto or off or full"),
        ({"turnstile_streem": "live"}, "unknown option turnstile_streem; did you mean turnstile_streaming?"),
        ({"mode": "regular"}, "--mode regular: expected reverse:http://HOST:PORT"),
        ({"listen_port": "many"}, "listen_port"),
    ],
)
def test_a_bad_option_ends_it_with_one_line(tmp_path: Path, options: dict[str, str], message: str) -> None:
    done = subprocess.run(
        COMMAND,
        env=environment(tmp_path, **options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
