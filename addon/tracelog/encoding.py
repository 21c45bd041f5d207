"""An exchange as a record and back: envelope, recipes of the two bodies, what is new in them.

The mirror image stands in one file, so that a field added on one side is missed on neither.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from zlib_ng.zlib_ng import crc32

from turnstile.addon.tracelog.bases import Base, Bases
from turnstile.addon.tracelog.fingerprints import Fingerprint, fingerprint
from turnstile.addon.tracelog.frames import DICTIONARY_SIZE, RecordType, pack_record, packed, unpacked
from turnstile.addon.tracelog.growing_spans import GrowingSpan, growing_spans, remembered
from turnstile.addon.tracelog.recipes import REPLY, REQUEST, Recipe, rebuild
from turnstile.addon.tracelog.records import Arrival, Exchange, Summary
from turnstile.addon.tracelog.splices import pack_splices, unpack_splices


@dataclass(frozen=True, slots=True)
class Encoded:
    """An exchange made ready for the log."""

    frame: bytes
    blobs: dict[bytes, bytes]  # SHA-256 -> bytes, which must stand in the log before the frame
    depth: int
    request: Fingerprint
    growing: list[GrowingSpan]  # of the reply
    dictionary: bytes
    repeats: tuple[Base | None, int]  # its base, and how much of the request they share in bytes

    def as_base(self, offset: int) -> Base:
        """For the exchanges to come, once it lies at `offset`."""
        return Base(offset, self.depth, self.request, remembered(self.growing), self.dictionary)


def encode_exchange(exchange: Exchange, log_id: str, bases: Bases) -> Encoded:
    """The record of `exchange`, resting on whichever exchange in `bases` it repeats most of."""
    request = fingerprint(exchange.request)
    base, shared = bases.best((exchange.group_id, exchange.rollout_id), request, exchange.request)
    request_recipe = Recipe()
    request_recipe.add_copy(REQUEST, 0, shared)
    request_recipe.add_new(exchange.request, shared, len(exchange.request))
    growing = growing_spans(exchange.reply)
    reply_recipe = _reply_recipe(exchange.reply, growing, base)
    all_rows_recipe = Recipe()
    all_rows_recipe.add_new(exchange.all_rows_reply, 0, len(exchange.all_rows_reply))
    splices, blobs = pack_splices(exchange.splices)
    checksums = [crc32(exchange.request), crc32(exchange.reply)]
    all_rows = _all_rows(exchange.all_rows_reply, all_rows_recipe)
    body = packed(all_rows | _details(exchange, request_recipe, reply_recipe, splices, checksums))
    envelope = _envelope(exchange, log_id, base)
    frame = pack_record(RecordType.EXCHANGE, envelope, body, base.dictionary if base else b"")
    return Encoded(
        frame,
        request_recipe.blobs | reply_recipe.blobs | all_rows_recipe.blobs | blobs,
        base.depth + 1 if base else 0,
        request,
        growing,
        body[-DICTIONARY_SIZE:],
        (base, shared),
    )


def _reply_recipe(reply: bytes, growing: Sequence[GrowingSpan], base: Base | None) -> Recipe:
    recipe, at = Recipe(), 0
    for span in growing:
        earlier = base.growing.get(span.kind) if base else None
        if earlier is not None and (shared := earlier.repeated_by(span)):
            recipe.add_new(reply, at, span.start)
            recipe.add_copy(REPLY, earlier.start, shared)
            at = span.start + shared
    recipe.add_new(reply, at, len(reply))
    return recipe


def _envelope(exchange: Exchange, log_id: str, base: Base | None) -> dict[str, Any]:
    """What can be read without the body; what is as usual is left out."""
    envelope: dict[str, Any] = {
        "id": _short_id(exchange.exchange_id, log_id),
        "group_id": exchange.group_id,
        "started_at": exchange.started_at,
        "duration_s": exchange.duration_s,
        "path": exchange.path,
        "sizes": [len(exchange.request), len(exchange.reply)],
    }
    unusual = {
        "rollout_id": (exchange.rollout_id, None),
        "method": (exchange.method, "POST"),
        "outcome": (exchange.outcome, "complete"),
        "status": (exchange.status, 200),
        "delivered": (exchange.delivered, True),
        "error": (exchange.error, None),
        "base": (base.offset if base else None, None),
        "all_rows_size": (len(exchange.all_rows_reply), 0),
    }
    return envelope | {name: value for name, (value, usual) in unusual.items() if value != usual}


def _short_id(exchange_id: str, log_id: str) -> int | str:
    """Its number, where the log's id tells the rest."""
    number = exchange_id.removeprefix(f"{log_id}-")
    if number.isdecimal() and exchange_id == numbered_id(log_id, int(number)):
        return int(number)
    return exchange_id


def numbered_id(log_id: str, number: int) -> str:
    """The exchange id of a writer's n-th exchange."""
    return f"{log_id}-{number:06d}"


def _details(
    exchange: Exchange, request: Recipe, reply: Recipe, splices: list[Any], checksums: list[int]
) -> dict[str, Any]:
    return {
        "request_headers": exchange.request_headers,
        "reply_headers": exchange.reply_headers,
        "splices": splices,
        "missing": exchange.missing,
        "request": request.steps,
        "reply": reply.steps,
        "arrivals": _packed_arrivals(exchange.arrivals),
        "checksums": checksums,
        "new": b"".join([*request.new, *reply.new]),  # last, so that the dictionary is made of it
    }


def _all_rows(reply: bytes, recipe: Recipe) -> dict[str, Any]:
    """Left out where there is none; before the rest, of which the end is the dictionary."""
    if not reply:
        return {}
    return {"all_rows": [recipe.steps, b"".join(recipe.new), crc32(reply)]}


def summary_of(envelope: Mapping[str, Any], log_id: str, offset: int) -> Summary:
    """What an envelope tells. Raises KeyError, TypeError or ValueError for a malformed one."""
    own_id = envelope["id"]
    request_bytes, reply_bytes = envelope["sizes"]
    summary = Summary(
        exchange_id=numbered_id(log_id, own_id) if isinstance(own_id, int) else own_id,
        group_id=envelope["group_id"],
        rollout_id=envelope.get("rollout_id"),
        started_at=envelope["started_at"],
        duration_s=envelope["duration_s"],
        method=envelope.get("method", "POST"),
        path=envelope["path"],
        outcome=envelope.get("outcome", "complete"),
        status=envelope.get("status", 200),
        delivered=envelope.get("delivered", True),
        error=envelope.get("error"),
        offset=offset,
        request_bytes=request_bytes,
        reply_bytes=reply_bytes,
        all_rows_bytes=envelope.get("all_rows_size", 0),
    )
    _check(summary)
    return summary


_TEXT_OR_NONE = (str, type(None))  # made once: this is asked of every record
_INT_OR_NONE = (int, type(None))
_YEAR_3000 = 32503680000.0  # Unix seconds; a time beyond it cannot be shown, and is none


def _check(summary: Summary) -> None:
    """Raises ValueError for a field of another type or range than FORMAT.md's."""
    is_sound = (
        isinstance(summary.exchange_id, str)
        and isinstance(summary.group_id, str)
        and isinstance(summary.path, str)
        and isinstance(summary.method, str)
        and isinstance(summary.outcome, str)
        and isinstance(summary.rollout_id, _TEXT_OR_NONE)
        and isinstance(summary.error, _TEXT_OR_NONE)
        and isinstance(summary.status, _INT_OR_NONE)
        and isinstance(summary.all_rows_bytes, int)
        and 0 <= summary.started_at < _YEAR_3000
        and 0 <= summary.duration_s < _YEAR_3000
    )
    if not is_sound:
        raise ValueError("a field of the envelope has another type or range than it should")


def decode_exchange(
    summary: Summary,
    body: bytes,
    base: tuple[bytes, bytes],
    blob: Callable[[bytes], bytes],
    backend: Mapping[str, Any] | None,
) -> Exchange:
    """The exchange of a record; `base` are the base exchange's request and reply.

    Raises ValueError (KeyError, TypeError for a malformed map) when it does not come out as it went in.
    """
    details = unpacked(body)
    new = memoryview(details["new"])
    request, taken = rebuild(details["request"], new, base, blob, summary.request_bytes)
    reply, _ = rebuild(details["reply"], new[taken:], base, blob, summary.reply_bytes)
    if [crc32(request), crc32(reply)] != details["checksums"]:
        raise ValueError("the rebuilt bodies do not have their checksums")
    all_rows, checksum = _rebuilt_all_rows(details.get("all_rows"), blob, summary.all_rows_bytes)
    if crc32(all_rows) != checksum:
        raise ValueError("the rebuilt answer with all rows does not have its checksum")
    return Exchange(
        exchange_id=summary.exchange_id,
        group_id=summary.group_id,
        rollout_id=summary.rollout_id,
        started_at=summary.started_at,
        duration_s=summary.duration_s,
        method=summary.method,
        path=summary.path,
        outcome=summary.outcome,
        status=summary.status,
        request_headers=_headers(details["request_headers"]),
        request=request,
        splices=unpack_splices(details["splices"], blob),
        reply_headers=_headers(details["reply_headers"]),
        reply=reply,
        arrivals=_arrivals(details.get("arrivals", ())),
        all_rows_reply=all_rows,
        missing=tuple(details["missing"]),
        delivered=summary.delivered,
        error=summary.error,
        backend=backend,
    )


def _rebuilt_all_rows(kept: list[Any] | None, blob: Callable[[bytes], bytes], size: int) -> tuple[bytes, int]:
    """The reply with all rows, and the checksum that it should have."""
    if kept is None:
        return b"", 0
    steps, new, checksum = kept
    return rebuild(steps, memoryview(new), (b"", b""), blob, size)[0], checksum


def _packed_arrivals(arrivals: tuple[Arrival, ...]) -> list[int]:
    """Size and microseconds since the piece before, by turns: small numbers, which repeat."""
    packed_, at, time_us = list[int](), 0, 0
    for end, after_s in arrivals:
        after_us = round(after_s * 1e6)
        packed_ += [end - at, after_us - time_us]
        at, time_us = end, after_us
    return packed_


def _arrivals(packed_: Sequence[int]) -> tuple[Arrival, ...]:
    ends, times_us = accumulate(packed_[::2]), accumulate(packed_[1::2])
    return tuple(Arrival(end, time_us / 1e6) for end, time_us in zip(ends, times_us, strict=True))


def _headers(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in pairs)
