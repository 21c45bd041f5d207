"""The records of a trace log as values; FORMAT.md tells how each lies on disk."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

Outcome = Literal["complete", "client_left", "backend_failed", "refused", "interrupted"]
"""How an exchange ended.

complete        a whole reply came, whatever its HTTP status
client_left     the harness hung up before the whole reply had come; `reply` holds what there was
backend_failed  no whole reply came from the backend
refused         Turnstile answered by itself and forwarded nothing
interrupted     the proxy was shut down while the exchange was under way
"""

Headers = tuple[tuple[str, str], ...]

LARGEST_CONTENT = 256 * 1024 * 1024
"""Bytes that a body may have once its content-encoding is undone: some kilobytes can spell gigabytes."""

_GZIP_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 14  # of a body that is inflated at once: at most some 16 MiB


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The first record of a file."""

    log_id: str  # 16 hexadecimal digits, one for each writer, shared by its parts
    part: int  # 0 for a writer's first file, one more after each rotation
    program: str  # who wrote it, with versions
    process_id: int
    host: str
    started_at: float  # Unix seconds
    backend: Mapping[str, Any] | None  # what was known of the backend when the file was begun


@dataclass(frozen=True, slots=True)
class Splice:
    """One edit of a body: source[start:end] gives way to `insert` (byte offsets of the source)."""

    start: int
    end: int
    insert: bytes


def in_order(*edits: Sequence[Splice]) -> tuple[Splice, ...]:
    """Splices of several kinds as `spliced` takes them; none may reach into another."""
    return tuple(sorted(chain.from_iterable(edits), key=lambda splice: splice.start))


def spliced(source: bytes, splices: Sequence[Splice]) -> bytes:
    """`source` with every splice applied; they are in rising order and do not overlap."""
    if not splices:
        return source
    view, parts, at = memoryview(source), list[bytes | memoryview](), 0
    for splice in splices:
        parts += [view[at : splice.start], splice.insert]
        at = splice.end
    return b"".join([*parts, view[at:]])


class Arrival(NamedTuple):
    """A piece of a streamed reply."""

    end: int  # offset in the reply behind its last byte
    after_s: float  # seconds after the exchange's start at which it came, in whole microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One HTTP request with its outcome, as it went over the wire."""

    exchange_id: str  # unique over all logs; "<log_id>-<number>"
    group_id: str
    rollout_id: str | None
    started_at: float  # Unix seconds, when the request's head had come
    duration_s: float
    method: str
    path: str  # on the backend, with its query: /v1/chat/completions
    outcome: Outcome
    status: int | None  # HTTP status of the backend's reply; None when no head came
    request_headers: Headers  # as the harness sent them, secret values blanked
    request: bytes  # body as the harness sent it, before any content-decoding
    splices: tuple[Splice, ...]  # turn the content-decoded body into the one that was forwarded
    reply_headers: Headers
    reply: bytes  # body as the backend sent it, before any content-decoding
    arrivals: tuple[Arrival, ...] = ()  # the pieces of a reply that was handed on as it came; () when held
    all_rows_reply: bytes = b""
    """The backend's answer to the forwarded request with one token to sample and all rows of routed experts,
    asked for where `reply` leaves rows out that had been computed anew; b"" where it was not."""
    missing: tuple[str, ...] = ()  # facts that were asked for and are absent from the reply
    delivered: bool = True  # False: the harness was gone before the reply could be handed on
    error: str | None = None  # what went wrong, in words; never a part of a body
    backend: Mapping[str, Any] | None = None  # the probe in force; the reader fills it in

    def forwarded(self) -> bytes:
        """The body that the backend got."""
        return spliced(content_decoded(self.request, self.request_headers), self.splices)

    def reply_content(self) -> bytes:
        """The reply's body without its content-encoding.

        Raises ValueError for an encoding that cannot be undone here.
        """
        return content_decoded(self.reply, self.reply_headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """A reward that somebody posted for a group, a rollout or a sequence."""

    group_id: str
    rollout_id: str | None
    sequence_id: str | None
    reward: float
    at: float  # Unix seconds
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What somebody said of a group when they made it; of two records the later one counts."""

    group_id: str
    max_trajectory_tokens: int | None  # None: no limit
    at: float  # Unix seconds
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightReading:
    """What the backend said its weights are, asked apart from any exchange."""

    weight_version: str | None  # None: it did not say
    asked_at: float  # Unix seconds
    answered_at: float


Entry = Exchange | Reward | Group | WeightReading
"""What a writer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What can be told of an exchange without unpacking its bodies."""

    exchange_id: str
    group_id: str
    rollout_id: str | None
    started_at: float
    duration_s: float
    method: str
    path: str
    outcome: Outcome
    status: int | None
    delivered: bool
    error: str | None
    offset: int  # of its record, bytes from the start of the file
    request_bytes: int
    reply_bytes: int
    all_rows_bytes: int = 0  # see Exchange.all_rows_reply


def content_decoded(body: bytes, headers: Headers) -> bytes:
    """`body` without the content-encoding that `headers` name (none, gzip, deflate, zstd).

    Raises ValueError for another encoding or a body that is not what its header says.
    """
    named = (value.strip().lower() for name, value in headers if name.lower() == "content-encoding")
    encoding = ",".join(named)
    if encoding in ("", "identity") or not body:
        return body
    try:
        if encoding == "gzip":
            return _inflated(body, zlib.MAX_WBITS | 16)
        if encoding == "deflate":  # with its zlib header (RFC 9110), or bare, as some servers send it
            return _inflated(body, zlib.MAX_WBITS if body[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        if encoding == "zstd":
            return _zstd_decoded(body)
    except (OSError, zlib.error) as error:
        raise ValueError(f"the body is no valid {encoding}: {error}") from error
    raise ValueError(f"content-encoding {encoding!r} cannot be decoded here (known: gzip, deflate, zstd)")


def _inflated(body: bytes, window_bits: int) -> bytes:
    """One gzip member after another; what follows and is none is ignored, as gzip does."""
    content, at, inflater = bytearray(), 0, zlib.decompressobj(window_bits)
    while at < len(body):
        piece = body[at : at + _PIECE]
        content += inflater.decompress(piece)
        at += len(piece) - len(inflater.unused_data)
        if len(content) > LARGEST_CONTENT:
            raise OSError(f"it holds more than {LARGEST_CONTENT} bytes")
        if inflater.eof:
            if not body.startswith(_GZIP_MAGIC, at):
                break
            inflater = zlib.decompressobj(window_bits)
    if not inflater.eof:
        raise OSError("it is cut off")
    return bytes(content)


def _zstd_decoded(body: bytes) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
            content = reader.read(LARGEST_CONTENT + 1)
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    if len(content) > LARGEST_CONTENT:
        raise OSError(f"it holds more than {LARGEST_CONTENT} bytes")
    return content
