"""An exchange while it is under way, and the record that is made of it once it has ended."""

import time
from dataclasses import dataclass

from mitmproxy.http import Headers as HttpHeaders
from mitmproxy.http import HTTPFlow

from turnstile.addon.backends.asking import Asking
from turnstile.addon.capture.keys import recorded_headers
from turnstile.addon.capture.routes import Route
from turnstile.addon.tracelog.records import Exchange, Headers, Outcome, Splice


@dataclass(slots=True, kw_only=True)
class InFlight:
    """What is known of an exchange before it has ended."""

    exchange_id: str
    flow: HTTPFlow  # holds the backend's reply as it came until the record is made
    route: Route
    redacted_headers: frozenset[str]
    request_headers: Headers
    request: bytes  # as the harness sent it
    asking: Asking | None = None  # None: forwarded as it came
    splices: tuple[Splice, ...] = ()
    error: str | None = None  # what went wrong in Turnstile itself so far

    @property
    def size_bytes(self) -> int:
        """Of both bodies, as far as they have come."""
        response = self.flow.response
        return len(self.request) + len((response.raw_content if response else None) or b"")

    def ended(
        self,
        outcome: Outcome,
        *,
        missing: tuple[str, ...] = (),
        delivered: bool = True,
        error: str | None = None,
    ) -> Exchange:
        """The record of this exchange with the backend's reply that its flow holds, if any."""
        response = None if outcome == "refused" else self.flow.response
        started_at = self.flow.request.timestamp_start
        return Exchange(
            exchange_id=self.exchange_id,
            group_id=self.route.group_id,
            rollout_id=self.route.rollout_id,
            started_at=started_at,
            duration_s=max(0.0, time.time() - started_at),
            method=self.flow.request.method,
            # a query may hold bytes that are no UTF-8, which mitmproxy keeps as surrogates
            path=self.route.target.encode("utf-8", "replace").decode(),
            outcome=outcome,
            status=response.status_code if response else None,
            request_headers=self.request_headers,
            request=self.request,
            splices=self.splices,
            reply_headers=self._recorded(response.headers) if response else (),
            reply=(response.raw_content or b"") if response else b"",
            missing=missing,
            delivered=delivered,
            error="; ".join(filter(None, (self.error, error))) or None,
        )

    def _recorded(self, headers: HttpHeaders) -> Headers:
        return recorded_headers(headers.fields, self.redacted_headers)
