"""One server that is asked over HTTP, as the proxy would ask it."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.direct import direct_opener

TIMEOUT_S = 60.0  # a first request may compile kernels
ANSWER_LIMIT_BYTES = 64 << 20
MESSAGE_LENGTH = 200  # of what is shown of a server's error
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; status 0: nothing did, and `body` says why."""

    status: int
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object in it; empty where there is none."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def problem(self) -> str:
        """Why it is no answer to build on, in the server's words as far as it has some."""
        if self.status == 0:
            return self.body.decode(errors="replace")
        error = self.json.get("error", self.json)
        message = error.get("message") if isinstance(error, dict) else error
        said = f": {_cut(message)}" if isinstance(message, str) else ""
        return f"status {self.status}{said}"


@dataclass(frozen=True, slots=True)
class Server:
    """The server at `url`, asked with a key where there is one."""

    url: str
    api_key: str | None = None

    @property
    def authorization(self) -> str | None:
        """The header's value."""
        return f"Bearer {self.api_key}" if self.api_key else None

    def get(self, path: str) -> Answer:
        """GET; never raises for what the server does."""
        return self._asked(urllib.request.Request(self.url + path, headers=self._headers()))

    def post(self, path: str, body: bytes) -> Answer:
        """POST of JSON; never raises for what the server does."""
        headers = self._headers() | {"Content-Type": "application/json"}
        return self._asked(urllib.request.Request(self.url + path, body, headers))

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json"} | (
            {"Authorization": self.authorization} if self.authorization else {}
        )

    def _asked(self, request: urllib.request.Request) -> Answer:
        try:
            with direct_opener().open(request, timeout=TIMEOUT_S) as answer:
                return Answer(answer.status, answer.read(ANSWER_LIMIT_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read(ANSWER_LIMIT_BYTES))
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, str(getattr(error, "reason", None) or error).encode())


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH else message[: MESSAGE_LENGTH - 1] + "…"


def encoded(fields: Mapping[str, Any]) -> bytes:
    """The JSON of a request."""
    return json.dumps(fields).encode()
