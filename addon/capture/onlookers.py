"""Whoever may look at flows: the user of mitmweb or mitmproxy, or of a file that flows are saved into.

In mitmdump nobody can, so nothing is done for them. The flow holds the reply that the harness got; what the
backend sent is kept apart, for the content view, as far as KEPT_BYTES go.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from mitmproxy.http import HTTPFlow

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.capture.annotations import annotate, is_annotated, note_unrecorded
from turnstile.addon.capture.following import Follower
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.merging import Merging
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.tracelog.records import Exchange, Headers, content_decoded

KEPT_BYTES = 128 << 20

type _Reply = tuple[bytes, Headers]  # of an exchange no more than is read: its images would take more room


class KeptReplies:
    """The latest replies as the backend sent them, by the ids of their flows."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._replies = OrderedDict[str, _Reply]()
        self._bytes = 0

    def keep(self, flow_id: str, exchange: Exchange) -> None:
        """Keeps the reply, and lets go of the oldest ones when they are too many bytes together."""
        reply = exchange.reply, exchange.reply_headers
        size = _size(reply)
        if size > self._limit_bytes or flow_id in self._replies:
            return
        self._replies[flow_id] = reply
        self._bytes += size
        while self._bytes > self._limit_bytes:
            self._bytes -= _size(self._replies.popitem(last=False)[1])

    def get(self, flow_id: str) -> bytes | None:
        """The reply without its content-encoding; None when it is not kept.

        Raises ValueError when that cannot be undone.
        """
        reply = self._replies.get(flow_id)
        return None if reply is None else content_decoded(*reply)

    def reply_of(self, flow: HTTPFlow) -> bytes:
        """The flow's reply as the backend sent it where that is kept, else as the flow has it.

        Raises ValueError as `get` does.
        """
        kept = self.get(flow.id)
        if kept is not None or flow.response is None:
            return kept or b""
        return flow.response.content or b""


class Onlookers:
    """Those of this process; none until the addon finds out."""

    def __init__(self) -> None:
        self.in_interface = False  # mitmweb or mitmproxy, which list flows
        self.in_file = False  # flows are saved
        self.kept = KeptReplies()
        self.merging: Merging | None = None  # None: nobody tells what becomes of exchanges
        self.follower: Follower | None = None  # of a session, in an interface

    def follow(
        self,
        recorder: Recorder,
        in_flight: Mapping[str, InFlight],
        changed: Callable[[Sequence[HTTPFlow]], object],
    ) -> None:
        """Begins to tell what becomes of a session's exchanges, if anybody looks at a list; see Follower."""
        if self.in_interface and self.merging is not None:
            self.follower = Follower(self.merging, recorder, in_flight, changed)

    def unfollow(self) -> None:
        """The session ends."""
        if self.follower is not None:
            self.follower.close()
        self.follower = None

    def show(self, flow: HTTPFlow, exchange: Exchange, backend: BackendFacts | None) -> None:
        """Has the flow tell of its exchange, if anybody can look at it."""
        if not self.in_interface and not self.in_file:
            return
        annotate(flow, exchange, backend.model_config if backend else None)
        if self.in_interface and exchange.reply:
            self.kept.keep(flow.id, exchange)
        if self.follower is not None:
            self.follower.recorded(flow, exchange)

    def show_unrecorded(self, flow: HTTPFlow, problem: str) -> None:
        """Has a flow that tells of its exchange say that it is not in the log."""
        if is_annotated(flow):
            note_unrecorded(flow, problem)


def _size(reply: _Reply) -> int:
    body, headers = reply
    return len(body) + sum(len(name) + len(value) for name, value in headers)
