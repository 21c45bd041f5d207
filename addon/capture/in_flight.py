"""An exchange while it is under way, and the record that is made of it once it has ended."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mitmproxy.http import Headers as HttpHeaders
from mitmproxy.http import HTTPFlow, Response

from turnstile.addon.backends.asking import Asking
from turnstile.addon.capture.content_encoding import recordable
from turnstile.addon.capture.keys import recorded_headers
from turnstile.addon.capture.known_lengths import Opening
from turnstile.addon.capture.known_prefixes import Resent
from turnstile.addon.capture.live_stream import LiveStream
from turnstile.addon.capture.routes import Route
from turnstile.addon.tracelog.records import Exchange, Headers, Outcome, Splice, content_decoded


@dataclass(slots=True, kw_only=True)
class InFlight:
    """What is known of an exchange before it has ended."""

    exchange_id: str
    flow: HTTPFlow  # holds the backend's reply as it came until the record is made
    route: Route
    redacted_headers: frozenset[str]
    request_headers: Headers
    request: bytes  # as the harness sent it, see content_encoding.recordable
    asking: Asking | None = None  # None: forwarded as it came
    splices: tuple[Splice, ...] = ()
    images: tuple[Splice, ...] = ()  # those of the splices that put images in
    other_fields: Mapping[str, Any] = field(default_factory=dict)  # set beside what asks for facts
    resent: Resent | None = None  # of earlier exchanges, where that decides on what is asked
    stream: LiveStream | None = None  # the backend's reply where it is handed on as it comes
    all_rows_reply: bytes = b""  # see Exchange
    reply_headers: Headers = ()  # then the backend's, as they are recorded
    opening: Opening | None = None  # its messages, where their length could only be guessed
    error: str | None = None  # what went wrong in Turnstile itself so far

    @property
    def size_bytes(self) -> int:
        """Of both bodies, as far as they have come, and of what was put into the request."""
        asked = len(self.request) + sum(len(splice.insert) for splice in self.splices)
        if self.stream is not None:
            return asked + self.stream.size_bytes
        response = self.flow.response
        return asked + len((response.raw_content if response else None) or b"") + len(self.all_rows_reply)

    def note(self, problem: str) -> None:
        """Has the record say what went wrong in Turnstile itself."""
        self.error = "; ".join(filter(None, (self.error, problem)))

    def reply_content(self) -> bytes:
        """The backend's whole reply without its content-encoding, as whoever reads the log will have it.

        Raises ValueError for an encoding that cannot be undone.
        """
        response = self.flow.response
        return content_decoded(*self._reply(response)) if response else b""

    def recorded(self, headers: HttpHeaders) -> Headers:
        """Headers as the log holds them."""
        return recorded_headers(headers.fields, self.redacted_headers)

    def interrupted(self) -> Exchange:
        """The record of this exchange when the proxy stops."""
        return self.ended("interrupted", delivered=False, error="the proxy was shut down")

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
        reply, reply_headers = self._reply(response) if response else (b"", ())
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
            reply_headers=reply_headers,
            reply=reply,
            arrivals=self.stream.arrivals if self.stream else (),
            all_rows_reply=self.all_rows_reply,
            missing=missing,
            delivered=delivered,
            error="; ".join(filter(None, (self.error, error))) or None,
        )

    def _reply(self, response: Response) -> tuple[bytes, Headers]:
        if self.stream is not None:
            return self.stream.reply, self.reply_headers
        return recordable(response.raw_content or b"", self.recorded(response.headers))
