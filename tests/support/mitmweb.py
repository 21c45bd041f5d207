"""The real mitmweb with the addon, as a process, and what its interface says."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.mitmdump import SCRIPT, Proxy, running_mitmdump, started_mitmdump
from turnstile.addon.capture.log_flows import write_flows
from turnstile.addon.tracelog.reader import open_log
from turnstile.compiler.replay import Replay
from turnstile.compiler.standing import standings_of
from turnstile.free_port import free_port

PASSWORD = "look"
ANSWER_S = 30.0


@dataclass(frozen=True)
class Interface:
    """mitmweb's own pages."""

    port: int

    @property
    def url(self) -> str:
        """Of the page, with the password."""
        return f"http://127.0.0.1:{self.port}/?token={PASSWORD}"

    def get(self, path: str, password: str = PASSWORD) -> tuple[int, str]:
        """Status and text of a page."""
        headers = {"Authorization": f"Bearer {password}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def flows(self) -> Any:
        """All flows, as its list shows them."""
        return json.loads(self.get("/flows")[1])

    def view(self, flow_id: str, message: str, name: str = "auto") -> Any:
        """What a content view makes of the `request` or `response` of a flow."""
        return json.loads(self.get(f"/flows/{flow_id}/{message}/content/{name}.json")[1])


def write_flows_of(log: Path, path: Path) -> None:
    """What `turnstile flows` makes of a log."""
    with Replay([log]) as replay, open_log(log) as reader, path.open("wb") as file:
        exchanges = ((log, exchange) for _, exchange in reader.exchanges())
        write_flows(file, exchanges, standings_of(replay))


@contextlib.contextmanager
def mitmweb_of_file(flows: Path, folder: Path, *arguments: str) -> Iterator[tuple[Interface, Proxy]]:
    """mitmweb that shows a file of flows; it could write logs into `folder`."""
    interface = Interface(free_port())
    settings = _settings(interface, f"turnstile_log={folder}")
    with started_mitmdump(
        "-r", str(flows), "-s", str(SCRIPT), *settings, *arguments, log_directory=folder, program="mitmweb"
    ) as web:
        web.wait_for_line("Web server listening at")
        yield interface, web


@contextlib.contextmanager
def capturing_mitmweb(
    backend_url: str, log_directory: Path, **options: str
) -> Iterator[tuple[Interface, Proxy]]:
    """mitmweb in front of a backend; `options` are the addon's, without their `turnstile_`."""
    interface = Interface(free_port())
    with running_mitmdump(
        backend_url, log_directory, *_settings(interface), program="mitmweb", **options
    ) as proxy:
        yield interface, proxy


def _settings(interface: Interface, *more: str) -> list[str]:
    settings = ("web_open_browser=false", "web_host=127.0.0.1", f"web_port={interface.port}", *more)
    return [part for each in (*settings, f"web_password={PASSWORD}") for part in ("--set", each)]
