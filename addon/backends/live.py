"""Turns a live chat stream into the one that the harness would have got, while it comes.

An event passes on as soon as it is there, and byte for byte unless something was added to it for capture.
Most events are told by a byte test and edited by their bytes; only the last few of a stream are parsed.
"""

from turnstile.addon.backends.asking import Asking
from turnstile.addon.backends.chat_events import CHUNKS, is_done
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.long_spans import cut_routed_experts
from turnstile.addon.backends.restoring import Fact, wanted_facts
from turnstile.addon.backends.sse import EventSplitter, RawEvent, parsed_event, with_data
from turnstile.addon.backends.stream_tally import ROW_MARK, StreamTally
from turnstile.addon.backends.taking_off_stream import (
    GOES_ON,
    hidden_in,
    says_no_logprobs,
    take_off_chunk,
    take_off_rest,
    without_logprobs,
)


class LiveRestorer:
    """One stream, whose pieces are fed as they come and handed on at once.

    Never raises: an event over which it fails passes as it came.
    """

    __slots__ = ("_hid_last", "_hidden", "_splitter", "_tally", "_wanted", "done_at", "done_seen", "fault")

    def __init__(self, asking: Asking) -> None:
        self.done_seen = False  # [DONE] is in what `feed` has returned
        self.done_at: int | None = None  # offset of [DONE]'s event in what the last `feed` returned
        self.fault: Exception | None = None  # its first failure
        self._hidden, self._wanted = hidden_in(asking), wanted_facts(asking)
        self._splitter, self._tally = EventSplitter(), StreamTally()
        self._hid_last = False  # the event before is not for the harness

    def feed(self, piece: bytes) -> bytes:
        """What to hand on now; b"" when nothing is ready."""
        self.done_at = None
        handed_on: list[bytes] = []
        for event in self._splitter.feed(piece):
            if not self.done_seen and is_done(event):
                self.done_seen = True
                self.done_at = sum(map(len, handed_on))
            handed_on.append(self._restored(event))
        return handed_on[0] if len(handed_on) == 1 else b"".join(handed_on)

    def end(self) -> bytes:
        """What is left to hand on when the stream has ended: an event whose blank line never came."""
        self.done_at = None
        rest = self._splitter.end()
        try:
            return take_off_rest(parsed_event(rest), self._hidden)
        except Exception as error:
            self.fault = self.fault or error
            return rest

    @property
    def missing(self) -> tuple[Fact, ...]:
        """The wanted facts that a stream lacks although it ended by itself, in the order of Fact.

        Logprobs are missing when one of them is. () for a stream that was cut off, was aborted or failed:
        there they may never have been.
        """
        return self._tally.missing(self._wanted)

    def _restored(self, event: RawEvent) -> bytes:
        if event.data is None:
            if event.continues:
                return b"" if self._hid_last else event.raw
            self._hid_last = False
            return event.raw
        try:
            restored = self._for_harness(event, event.data)
        except Exception as error:
            self.fault, restored = self.fault or error, event.raw
        self._hid_last = not restored
        return restored

    def _for_harness(self, event: RawEvent, data: bytes) -> bytes:
        """The event's bytes for the harness, the very ones it came with where it needs no edit."""
        if says_no_logprobs(data) or event.event not in CHUNKS:
            return event.raw
        self._tally.rows += data.count(ROW_MARK)
        if data.endswith(GOES_ON):
            if not self._hidden.logprobs:
                return event.raw
            if (restored := without_logprobs(event, data)) is not None:
                return restored
        return self._parsed(event, data)

    def _parsed(self, event: RawEvent, data: bytes) -> bytes:
        try:
            chunk = loads(cut_routed_experts(data).rest).value  # whether they are there is all that counts
        except ValueError:
            return event.raw
        if not isinstance(chunk, dict):
            return event.raw
        self._tally.note(chunk)
        edited = take_off_chunk(data, chunk, self._hidden)
        if edited is None:
            return b""
        return event.raw if edited is data else with_data(event, edited)
