import itertools
import json

import pytest

from tests.support.backend import chat_stream
from turnstile.addon.backends.asking import ask_chat_live
from turnstile.addon.backends.live import LiveRestorer
from turnstile.addon.capture.content_encoding import Decoder
from turnstile.addon.capture.live_stream import LeftUnrecordedError, LiveStream
from turnstile.addon.tracelog.records import spliced

REQUEST = b'{"model": "m", "stream": true}'
ASKING = ask_chat_live(REQUEST, None)
ASKED = {
    "logprobs": True,
    "return_input_ids_in_sglext": True,
    "return_output_ids_in_sglext": True,
    "stream_options": {"include_usage": True},
}
EVENTS = chat_stream(ASKED, "a", "b")
EXPECTED = b"".join(chat_stream({}, "a", "b"))
DONE = b"data: [DONE]\n\n"


class Watched:
    """A stream, with what it told of itself and handed on so far."""

    def __init__(self, restorer: LiveRestorer | None, decoder: Decoder | None = None) -> None:
        self.given: list[bytes] = []
        self.faults: list[Exception] = []
        self.times_behind_done = 0
        self.stream = LiveStream(
            started_at=0.0,
            decoder=decoder,
            restorer=restorer,
            at_fault=self.faults.append,
            behind_done=self.see_behind_done,
        )

    def see_behind_done(self) -> None:
        self.times_behind_done += 1

    def feed(self, *pieces: bytes) -> bytes:
        for piece in pieces:
            self.given += self.stream(piece)
        assert all(self.given)  # an empty one would end the harness's body
        return b"".join(self.given)

    def feed_and_release(self, *pieces: bytes) -> bytes:
        """What is held back goes at once, as behind a record that takes no time."""
        for piece in pieces:
            self.given += [*self.stream(piece), self.stream.released()]
        return b"".join(self.given)


def test_the_stream_of_these_tests_is_one_that_was_asked_for() -> None:
    asked = json.loads(spliced(REQUEST, ASKING.splices))
    assert asked == json.loads(REQUEST) | ASKED


def test_events_go_on_without_what_was_added_and_are_kept_as_they_came() -> None:
    watched = Watched(LiveRestorer(ASKING))
    assert watched.feed(*EVENTS, b"") == EXPECTED
    assert watched.stream.reply == b"".join(EVENTS)
    assert watched.stream.size_bytes == len(watched.stream.reply)
    assert [arrival.end for arrival in watched.stream.arrivals] == list(
        itertools.accumulate(map(len, EVENTS))
    )


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_piece_may_be_any_fragment(cut: int) -> None:
    whole = b"".join(EVENTS)
    pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]
    assert Watched(LiveRestorer(ASKING)).feed(*pieces, b"") == EXPECTED


def test_done_is_held_back_and_nothing_else() -> None:
    for pieces in (EVENTS, [b"".join(EVENTS)], [*EVENTS[:-2], EVENTS[-2] + DONE[:8], DONE[8:]]):
        watched = Watched(LiveRestorer(ASKING))
        assert watched.feed(*pieces) == EXPECTED.removesuffix(DONE)
        assert watched.stream.released() == DONE
        assert watched.feed(b"") == EXPECTED.removesuffix(DONE)


@pytest.mark.parametrize("behind", [[b""], [b": bye\n\n", b""], [DONE, b"data: {", b""]])
def test_what_nobody_releases_goes_before_what_comes_behind_it(behind: list[bytes]) -> None:
    watched = Watched(LiveRestorer(ASKING))
    assert watched.feed(*EVENTS, *behind) == EXPECTED + b"".join(behind)
    assert watched.stream.held_back == b""


def test_without_done_nothing_is_held_back() -> None:
    watched = Watched(LiveRestorer(ASKING))
    watched.feed(*EVENTS[:-1], b"data: [D", b"")
    assert watched.given[-1] == b"data: [D"
    assert watched.stream.reply.endswith(b"data: [D")


class Failing(LiveRestorer):
    """Fails with the n-th piece, when it has already taken it in."""

    def __init__(self, at: int) -> None:
        super().__init__(ASKING)
        self.countdown = at

    def feed(self, piece: bytes) -> bytes:
        given = super().feed(piece)
        self.countdown -= 1
        if self.countdown < 0:
            raise RuntimeError
        return given

    def end(self) -> bytes:
        raise RuntimeError


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [3, 50])
def test_after_a_failure_the_bytes_go_on_from_where_they_were_held_back(line_end: bytes, size: int) -> None:
    whole = b"".join(chat_stream({}, "a", "b")).replace(b"\n", line_end)  # nothing in it is to be taken off
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    for at in range(len(pieces) + 1):  # the last one fails at the end
        watched = Watched(Failing(at))
        assert watched.feed_and_release(*pieces, b"") == whole
        assert [type(fault) for fault in watched.faults] == [RuntimeError]
        assert watched.stream.reply == whole


def test_without_a_restorer_all_passes() -> None:
    watched = Watched(None)
    assert watched.feed(*EVENTS, b"") == b"".join(EVENTS)
    assert watched.given == EVENTS


class Upper:
    """A content-encoding: upper case; one that is not is an error."""

    def feed(self, piece: bytes) -> bytes:
        if piece != piece.upper():
            raise ValueError
        return piece.lower().strip(b" ")


def test_a_content_encoding_is_undone_first_and_passes_from_where_it_cannot_be() -> None:
    watched = Watched(LiveRestorer(ASKING), Upper())
    pieces = (b"DATA: X\n", b" ", b"\n", b"data: Y\n\n", b"DATA: Z\n\n", b"")
    given = [watched.stream(piece) for piece in pieces]
    assert given == [[], [], [b"data: x\n\n"], [b"data: Y\n\n"], [b"DATA: Z\n\n"], []]
    assert watched.stream.reply == b"data: x\n\ndata: Y\n\nDATA: Z\n\n"
    assert [type(fault) for fault in watched.faults] == [ValueError]


@pytest.mark.parametrize("last", [b"", b"data: more\n\n"])
def test_a_done_that_leaves_before_its_record_is_a_fault_of_our_own(last: bytes) -> None:
    watched = Watched(LiveRestorer(ASKING))
    watched.feed(*EVENTS)
    assert watched.faults == []
    assert watched.feed(last) == EXPECTED + last  # nothing has called `released`, and no byte is lost
    assert [type(fault) for fault in watched.faults] == [LeftUnrecordedError]
    assert watched.faults[0].__traceback__ is not None


def test_what_comes_behind_done_is_told_of_and_a_mere_blank_line_is_not() -> None:
    watched = Watched(LiveRestorer(ASKING))
    assert watched.feed_and_release(*EVENTS, b"\n", b"") == EXPECTED + b"\n"
    assert watched.times_behind_done == 0
    again = Watched(LiveRestorer(ASKING))
    assert again.feed_and_release(*EVENTS, b": bye\n\n", b"") == EXPECTED + b": bye\n\n"
    assert again.times_behind_done == 1


@pytest.mark.parametrize("count", range(len(EVENTS) + 1))
def test_a_stream_that_was_cut_gives_nothing_more(count: int) -> None:
    watched = Watched(LiveRestorer(ASKING))
    before = watched.feed(*EVENTS[:count])
    watched.stream.cut()
    assert watched.feed(*EVENTS[count:], b"") == before
    assert (watched.stream.held_back, watched.stream.released(), watched.faults) == (b"", b"", [])
    assert DONE not in before
