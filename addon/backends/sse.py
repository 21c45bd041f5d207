"""Splits a stream of server-sent events into its events without changing a byte.

By the WHATWG HTML standard, section 9.2.6: lines end with LF, CR or CRLF, mixed as they please; a blank
line ends an event; a byte order mark at the head is no part of the first line. JSON inside may hold any
other character, U+2028 too: only LF and CR end a line.

An event is given out as soon as its blank line has come. Where that ended with CR at the edge of a piece,
the LF that may follow is given out as an event of its own.
"""

import re
from typing import NamedTuple

MESSAGE = b"message"
"""The type of an event that names none."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# With the end of the line before it; 4 bytes at most. A pattern that begins with a set is searched fast.
_BLANK_LINE = re.compile(rb"[\r\n](?:(?<=\n)(?:\r\n?|\n)|(?<=\r)(?:\r\n?|\n(?:\r\n?|\n)))")
_LINE_END = b"\r\n"
_TAIL = 3  # bytes of an unfinished event that a blank line may have begun in


class RawEvent(NamedTuple):
    """One event, or what stands between two that a reader passes over."""

    # A tuple, for one is made for every token: 0.5 us against the 1.5 us of a frozen dataclass.

    raw: bytes
    """All its bytes, from behind the event before up to and with its blank line."""
    data: bytes | None
    """Its data lines joined by LF; None where there are none, so that nothing is dispatched."""
    event: bytes = MESSAGE
    data_at: int = -1
    """Offset of `data` in `raw`; -1 where it is none or several lines."""
    continues: bool = False
    """It is the LF of a CRLF whose CR ended the event before."""


class EventSplitter:
    """The events of one stream, whose bytes are fed in pieces cut anywhere.

    The `raw` of all events, and what `end` gives, are together the bytes that were fed. A piece costs time
    in proportion to its own length, however long the event that it belongs to.
    """

    __slots__ = ("_after_cr", "_at_head", "_parts", "_tail")

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the event that is not finished
        self._tail = b""  # its last bytes
        self._after_cr = False  # the event before ended with a CR, and with the piece
        self._at_head = True  # no event has been given out

    def feed(self, piece: bytes) -> list[RawEvent]:
        """The events that this piece finishes."""
        if not piece:
            return []
        if not self._parts and (event := _event_of_one_line(piece)):  # as nearly all come
            self._after_cr = self._at_head = False
            return [event]
        events, begin = [], 0
        if self._after_cr and piece.startswith(b"\n"):
            events.append(RawEvent(b"\n", None, continues=True))
            begin = 1
        text, searched = piece, begin
        if self._parts:
            text, begin = self._tail + piece, len(self._tail)
        has_cr = b"\r" in text
        while (end := _event_end(text, searched, has_cr, is_new=not self._parts)) > 0:
            self._parts.append(text[begin:end])
            events.append(self._finished())
            begin = searched = end
        self._after_cr = begin == len(text) and text.endswith(b"\r")
        if begin < len(text):
            self._parts.append(text[begin:])
            self._tail = text[max(searched, len(text) - _TAIL) :]
        return events

    def end(self) -> bytes:
        """The bytes behind the last blank line. To a reader they are no event."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return rest

    def _finished(self) -> RawEvent:
        raw = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        at = len(_BYTE_ORDER_MARK) if self._at_head and raw.startswith(_BYTE_ORDER_MARK) else 0
        self._at_head = False
        return parsed_event(raw, at)


def parsed_event(raw: bytes, at: int = 0) -> RawEvent:
    """What the lines of `raw` from `at` on say, of which the last may be without its end."""
    if not at and (found := _event_of_one_line(raw)):
        return found
    data: list[bytes] = []
    event, data_at = b"", -1
    for line in raw[at:].splitlines(keepends=True):
        name, _, value = line.rstrip(_LINE_END).partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
            data_at = at + len(line.rstrip(_LINE_END)) - len(value)
        elif name == b"event":
            event = value
        at += len(line)
    if not data:
        return RawEvent(raw, None, event or MESSAGE)
    return RawEvent(raw, b"\n".join(data), event or MESSAGE, data_at if len(data) == 1 else -1)


def _event_of_one_line(raw: bytes) -> RawEvent | None:
    """The event that `raw` is if it has a line of data, ended by LF, and no other line; else None."""
    end = len(raw) - 2
    if raw.startswith(b"data: ") and raw.find(b"\n") == end and raw.endswith(b"\n\n") and b"\r" not in raw:
        return RawEvent(raw, raw[6:end], MESSAGE, 6)
    return None


def with_data(event: RawEvent, data: bytes) -> bytes:
    """The event's bytes with other data, all its other lines as they came."""
    if event.data is not None and event.data_at >= 0 and b"\n" not in data:
        return event.raw[: event.data_at] + data + event.raw[event.data_at + len(event.data) :]
    lines, is_written = [], False
    for line in event.raw.splitlines(keepends=True):
        said = line.rstrip(_LINE_END)
        if said.removeprefix(_BYTE_ORDER_MARK).partition(b":")[0] != b"data":
            lines.append(line)
        elif not is_written:
            lines += [b"data: " + text + line[len(said) :] for text in data.split(b"\n")]
            is_written = True
    return b"".join(lines)


def _event_end(text: bytes, at: int, has_cr: bool, *, is_new: bool) -> int:
    """Offset behind the first event that ends in `text[at:]`, 0 for none; `is_new`: one begins at `at`."""
    if is_new and text.startswith((b"\n", b"\r"), at):
        return at + 2 if text.startswith(b"\r\n", at) else at + 1
    if not has_cr:
        line_end = text.find(b"\n", at)  # one byte is found many times faster than two
        while line_end >= 0 and not text.startswith(b"\n", line_end + 1):
            line_end = text.find(b"\n", line_end + 1)
        return line_end + 2 if line_end >= 0 else 0
    blank_line = _BLANK_LINE.search(text, at)
    return blank_line.end() if blank_line else 0
