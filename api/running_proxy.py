"""A proxy that answers: asks it for what stands in README under "The proxy"."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnstile.addon.backends.direct import direct_opener
from turnstile.errors import ProxyError

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that answers."""

    port: int
    process_id: int
    host: str = "127.0.0.1"
    secret: str = field(default="", repr=False)  # the proxy's key, where it wants one

    @property
    def address(self) -> str:
        """host:port, as a URL has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def health(self) -> dict[str, Any]:
        """What GET /turnstile/health says. Raises ProxyError when it is not healthy or does not answer."""
        return self.ask("GET", "health")

    def flush(self) -> dict[str, Any]:
        """Returns where the log ends once all that was captured is readable in it. Raises ProxyError."""
        return self.ask("POST", "flush")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that /turnstile/`path` answers.

        Raises ProxyError with the proxy's own words where that is an error, when it does not answer, and for
        a `body` that is no JSON.
        """
        data = None if body is None else _encoded(body)
        headers = {"Content-Type": "application/json"}
        if self.secret:
            headers["X-Turnstile-Key"] = self.secret
        url = f"http://{self.address}/turnstile/{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with direct_opener().open(request, timeout=TIMEOUT_S) as answer:
                fields: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise ProxyError(f"{method} {url}: {_reason(error)}") from None
        except (OSError, ValueError) as error:
            raise ProxyError(f"{method} {url}: {getattr(error, 'reason', None) or error}") from error
        return fields


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ProxyError(f"what is sent cannot be written as JSON: {error}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        told = json.load(error)
        return str(told["error"]["message"] if "error" in told else told.get("problems") or error.code)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return f"status {error.code}"
