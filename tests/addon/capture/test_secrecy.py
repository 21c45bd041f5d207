"""The proxy's secret and the harness's keys are left nowhere, and no host but the backend is asked."""

import json
import select
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.backend import (
    EVENT_STREAM,
    Backend,
    Received,
    Reply,
    chat_reply,
    chat_stream,
    running_backend,
)
from tests.support.mitmdump import Proxy, running_mitmdump
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.cli.main import main

SECRET, KEY, COOKIE = "secret-of-the-proxy", "sk-harness", "session=1234"
PRIVATE, WRONG = "private-5", "wrong-key"
CHAT = "/group/g/rollout/r/v1/chat/completions"
REMOTE_IMAGE = {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "2+2?"}]} | fields).encode()


def answers(received: Received) -> Reply:
    if received.path != "/v1/chat/completions":
        return Reply(b"{}")
    if b'"fail"' in received.body:
        return Reply(b'{"error": "no"}', status=500)
    if received.body.startswith(b"{") and received.json.get("stream"):
        return Reply(chat_stream(received.json, "a", "b"), headers=EVENT_STREAM)
    return Reply(chat_reply(json.loads(received.body) if received.body.startswith(b"{") else {}))


def with_traffic(proxy: Proxy) -> None:
    """Every kind of exchange, with every kind of key."""
    keys = {"x-api-key": KEY, "cookie": COOKIE, "x-private": PRIVATE, "proxy-authorization": f"Basic {KEY}"}
    by_header = keys | {"x-turnstile-key": SECRET, "authorization": f"Bearer {KEY}"}
    by_bearer = keys | {"authorization": f"bearer {SECRET}"}
    with_both = keys | {"x-turnstile-key": SECRET, "authorization": f"Bearer {SECRET}"}
    for headers in (by_header, by_bearer, with_both):
        for content in (body(), body(stream=True), body(fail="fail"), b"no json"):
            proxy.ask("POST", CHAT, content, headers)
        image = body(messages=[{"role": "user", "content": [REMOTE_IMAGE]}])
        assert proxy.ask("POST", CHAT, image, headers).status == 400
        assert proxy.ask("POST", "/group/a%20b/v1/chat/completions", body(), headers).status == 400
        proxy.ask("GET", "/v1/models", None, headers)
        proxy.ask("POST", "/v1/completions", body(), headers)
        proxy.ask("POST", "/turnstile/groups", b'{"group_id": "g", "metadata": {"a": 1}}', headers)
        proxy.ask("POST", "/turnstile/groups/g/reward", b'{"reward": 1}', headers)
        proxy.ask("GET", "/turnstile/nothing", None, headers)
    for wrong in ({"authorization": f"Bearer {WRONG}"}, {"x-turnstile-key": WRONG}, keys):
        assert proxy.ask("POST", CHAT, body(), wrong).status == 401
        assert proxy.ask("GET", "/turnstile/health", None, wrong).status == 401
    assert proxy.ask("POST", "/turnstile/flush", None, by_header).status == 200


def left_in_log(proxy: Proxy) -> str:
    """All that the logs hold, unpacked, and as it lies on the disk."""
    found = []
    for path in log_paths([proxy.log_directory]):
        with open_log(path) as log:
            found += [repr(each) for _, each in log.exchanges()]
            found += [repr(log.header), *map(repr, log.rewards()), *map(repr, log.groups_made())]
            assert log.damage is None
        found.append(path.read_bytes().decode("latin-1"))
    return "\n".join(found)


def made_of(logs: Path) -> list[str]:
    """Everything that the commands make of logs: what they write and what they say."""
    flows, page, sequences = logs / "x.mitm", logs / "page.html", logs / "x.jsonl"
    commands = (
        ["flows", str(logs), "-o", str(flows)],
        ["report", str(logs), "-o", str(page)],
        ["compile", str(logs), "-o", str(sequences)],
        ["show", str(logs)],
    )
    said = []
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0
        said.append(result.output)
    return said + [path.read_bytes().decode("latin-1") for path in (flows, page, sequences)]


@pytest.mark.parametrize("streaming", ["buffered", "live"])
@pytest.mark.parametrize("backend_is_up", [True, False])
def test_no_key_is_left_anywhere(tmp_path: Path, streaming: str, backend_is_up: bool) -> None:
    redacted = "authorization,cookie,x-api-key,proxy-authorization,x-turnstile-key,x-private"
    options = {"secret": SECRET, "redact_headers": redacted, "streaming": streaming}
    with running_backend() as backend:
        backend.script = answers
        if not backend_is_up:
            backend.stop()
        with running_mitmdump(backend.url, tmp_path / "log", **options) as proxy:
            with_traffic(proxy)
            health = proxy.ask("GET", "/turnstile/health", None, {"x-turnstile-key": SECRET})
            assert health.status == 200
            proxy.stop()
        logged = left_in_log(proxy)
        assert logged.count("Exchange(") == 15
        if backend_is_up:
            assert all(SECRET not in repr(received) for received in backend.received)
    console = "\n".join(proxy.lines)
    for key in (SECRET, KEY, COOKIE, PRIVATE, WRONG):
        for place in (logged, console, health.body.decode(), *made_of(proxy.log_directory)):
            assert key not in place


def test_the_secret_is_not_logged_where_its_header_may_be(tmp_path: Path) -> None:
    with (
        running_backend() as backend,
        running_mitmdump(backend.url, tmp_path / "log", secret=SECRET, redact_headers="x-private") as proxy,
    ):
        for headers in ({"authorization": f"Bearer {SECRET}"}, {"x-turnstile-key": SECRET}):
            assert proxy.ask("POST", CHAT, body(), headers).status == 200
        proxy.ask("POST", "/turnstile/flush", None, {"x-turnstile-key": SECRET})
        assert SECRET not in left_in_log(proxy)


def raw(proxy: Proxy, head: str, content: bytes = b"") -> bytes:
    """What the proxy answers to these very bytes, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + content)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize(
    "request_line",
    [
        "POST {other}{chat} HTTP/1.1",
        "POST {other}{chat} HTTP/1.0",
        "POST http://user:key@{host}{chat} HTTP/1.1",
        "POST {chat} HTTP/1.1",
        "POST {other}/v1/embeddings HTTP/1.1",
        "GET {other}/v1/models HTTP/1.1",
        "GET /group/g/{other}/v1/models HTTP/1.1",
        "GET //{host}/v1/models HTTP/1.1",
        "GET @{host}/v1/models HTTP/1.1",
        "GET /group/g/@{host}/v1/models HTTP/1.1",
        "CONNECT {host} HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ],
)
def test_whatever_host_a_request_names_the_backend_alone_is_asked(
    proxy: Proxy, backend: Backend, request_line: str
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        host = f"127.0.0.1:{other.getsockname()[1]}"
        line = request_line.format(other=f"http://{host}", host=host, chat=CHAT)
        content = body() if line.startswith("POST") else b""
        headers = f"Host: {host}\nX-Forwarded-Host: {host}\nForwarded: host={host}\nConnection: close"
        raw(proxy, f"{line}\n{headers}\nContent-Length: {len(content)}\n\n", content)
        assert select.select([other], [], [], 0) == ([], [], [])
    assert all(host not in received.headers.get("host", "") for received in backend.received)


@pytest.mark.parametrize(
    "group_id", ["..", ".", "..%2f..%2fetc", "%2e%2e", "a%00b", "a%0d%0ab", "~", "C:%5Cx"]
)
def test_no_id_leads_out_of_the_log_directory(proxy: Proxy, backend: Backend, group_id: str) -> None:
    before = sorted(proxy.log_directory.parent.rglob("*"))
    for path in (
        f"/group/{group_id}/v1/chat/completions",
        f"/group/g/rollout/{group_id}/v1/chat/completions",
    ):
        assert proxy.ask("POST", path, body()).status == 400
    assert backend.received == []
    assert proxy.ask("POST", f"/turnstile/groups/{group_id}/reward", b'{"reward": 1}').status in (
        400,
        404,
        405,
    )
    assert sorted(proxy.log_directory.parent.rglob("*")) == before
