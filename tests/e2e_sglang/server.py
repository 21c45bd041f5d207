"""A real SGLang server for the tests: a user's, or one that is started here on the CPU.

TURNSTILE_E2E_URL names a running server. Else TURNSTILE_SGLANG_KIT names a folder with `install.sh` and
`serve.sh KIND PORT [flags]`, which prints the server's pid.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnstile.free_port import free_port

FLAGS = ("--weight-version", "step-1", "--context-length", "2048")
PARSER = ("--tool-call-parser", "qwen25")


@contextmanager
def sglang(kind: str, *flags: str, parser: bool = True) -> Iterator[str]:
    """The base URL of a server with a model of this kind; skips the test, loudly, where there is none.

    `flags` and `parser` are for a server that is started here; a user's has those that it has.
    """
    if url := os.environ.get("TURNSTILE_E2E_URL"):
        yield url.rstrip("/")
        return
    kit = os.environ.get("TURNSTILE_SGLANG_KIT")
    if not kit:
        pytest.skip("NO REAL SERVER: set TURNSTILE_E2E_URL or TURNSTILE_SGLANG_KIT (CONTRIBUTING.md)")
    subprocess.run([Path(kit) / "install.sh"], check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    command = [
        str(Path(kit) / "serve.sh"),
        kind,
        str(port),
        "--served-model-name",
        f"tiny-{kind}",
        *FLAGS,
        *(PARSER if parser else ()),
        *flags,
    ]
    started = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    process_id = int(started.stdout.split()[-1])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(process_id, signal.SIGTERM)
