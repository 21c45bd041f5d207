import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def launched(tmp_path: Path, **options: str) -> "subprocess.CompletedProcess[str]":
    usual = {"mode": "reverse:http://127.0.0.1:9", "listen_host": "127.0.0.1", "listen_port": "0"}
    usual |= {"turnstile_log": str(tmp_path / "log"), "confdir": str(tmp_path / "conf")}
    environment = {
        **os.environ,
        "TURNSTILE_PROXY_OPTIONS": json.dumps(usual | options),
        "TURNSTILE_ENDS_WITH_STDIN": "1",
    }
    command: Any = [sys.executable, "-m", "turnstile.addon.capture.launcher"]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def test_it_ends_in_order_and_leaves_a_whole_log(tmp_path: Path) -> None:
    done = launched(tmp_path)  # its standard input has ended
    assert done.returncode == 0


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
    done = launched(tmp_path, **options)
    assert done.returncode == 1
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
