import socket
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from turnstile.errors import ProxyError, ProxyStartError
from turnstile.free_port import free_port
from turnstile.running_proxy import RunningProxy
from turnstile.workers import Workers, port_of, running_workers


def test_a_group_belongs_to_one_port() -> None:
    assert port_of("task-7", 8080, 1) == 8080
    assert port_of("task-7", 8080, 4) == 8080 + zlib.crc32(b"task-7") % 4
    assert {port_of(f"task-{number}", 8080, 4) for number in range(40)} == {8080, 8081, 8082, 8083}


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with (
            pytest.raises(ProxyStartError, match=rf"cannot listen on port {port} of 127\.0\.0\.1"),
            running_workers(
                "http://127.0.0.1:9", tmp_path, host="127.0.0.1", port=port, workers=1, options={}
            ),
        ):
            raise AssertionError("it started")


def test_a_worker_that_has_ended_is_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as child:
        child.wait()
        port = free_port()
        with pytest.raises(ProxyError, match=rf"the proxy at 127\.0\.0\.1:{port} ended with exit code 7"):
            Workers([RunningProxy(port, child.pid)], [child]).wait()


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_proxy_listens_by_ipv6(tmp_path: Path, host: str) -> None:
    with socket.socket(socket.AF_INET6) as found:
        try:
            found.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        port = found.getsockname()[1]
    with running_workers(
        "http://127.0.0.1:9", tmp_path, host=host, port=port, workers=1, options={}
    ) as workers:
        (proxy,) = workers.proxies
        assert proxy.address == f"[::1]:{port}"
        assert proxy.health()["status"] == "ok"
