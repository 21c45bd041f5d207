"""One backend, and one mitmdump for each way of streaming, for all tests of capture.

Each test has groups of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.backend import Backend, Script, running_backend
from tests.support.chromium import chromium
from tests.support.mitmdump import Proxy, running_mitmdump


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says at the end, where nobody can miss it, that a part was not tested."""
    if chromium() is None:
        terminalreporter.write_line(
            "NOT TESTED: mitmweb in a browser, for there is no chromium on this machine", yellow=True
        )


@pytest.fixture(scope="session")
def shared_backend() -> Iterator[Backend]:
    with running_backend(server_info={"context_length": 4096}) as backend:
        yield backend


@pytest.fixture(scope="session")
def shared_proxy(shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with running_mitmdump(shared_backend.url, tmp_path_factory.mktemp("shared") / "log") as proxy:
        yield proxy


@pytest.fixture(scope="session")
def shared_live_proxy(shared_backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    log = tmp_path_factory.mktemp("live") / "log"
    with running_mitmdump(shared_backend.url, log, streaming="live") as proxy:
        yield proxy


@pytest.fixture
def backend(shared_backend: Backend) -> Iterator[Backend]:
    script: Script = shared_backend.script
    shared_backend.received.clear()
    yield shared_backend
    shared_backend.script = script


@pytest.fixture
def proxy(shared_proxy: Proxy, backend: Backend) -> Proxy:
    return shared_proxy


@pytest.fixture
def live_proxy(shared_live_proxy: Proxy, backend: Backend) -> Proxy:
    """Streams are handed on as they come."""
    return shared_live_proxy


@pytest.fixture
def live_backend() -> Iterator[Backend]:
    """One for a proxy of the test's own; its streams can be whole."""
    with running_backend(server_info={"reasoning_parser": "qwen3"}) as backend:
        yield backend


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    return tmp_path / "log"
