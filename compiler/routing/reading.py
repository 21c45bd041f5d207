"""One answer's routing: decoded, fitted to its tokens, and checked.

An answer has a row for every token but the last that it sampled, which was never fed to the model: P + O - 1
rows for a prompt of P and O sampled ids, less the first ones where the request wanted them left out. Some
servers pass over that wish, some add the last token's row, which is cut off here; both show in the number of
rows. Any other number contradicts the ids, and the turn stays out. Rows that are there and cannot be
believed leave the turn in, flagged routing_untrusted, its routing unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.routing.decoding import UndecodableRouting, decoded
from turnstile.compiler.routing.rows import Experts, RoutedRows, narrowed
from turnstile.compiler.routing.shape import MoeShape, moe_shape
from turnstile.compiler.routing.trust import is_retracted, origin_doubts, value_doubts
from turnstile.compiler.turn import Turn

UNTRUSTED = "routing_untrusted"


class AnswerRouting(NamedTuple):
    """What an answer tells of its routing."""

    rows: RoutedRows | None = None  # None: unknown
    flags: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    contradicts: bool = False  # it cannot belong to these ids


NOTHING = AnswerRouting()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the backend was asked for."""

    wanted: bool = False
    start: int = 0  # the first row that was wanted

    @classmethod
    def by(cls, request: Mapping[str, Any]) -> "Asked":
        """As the fields of a request say."""
        start = request.get("routed_experts_start_len")
        wanted = request.get("return_routed_experts") is True
        return cls(wanted, start if wanted and type(start) is int and start > 0 else 0)


class RoutingReader:
    """Reads the routing of all answers of a compilation; `config` is the model's, where one was named."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._named = moe_shape(config) if config is not None else None
        self._row_sizes: dict[str, int] = {}  # by log: ids of a row, where only the sizes tell

    def read(
        self,
        reading: ChoiceReading,
        asked: Asked,
        turn: Turn,
        backend: Mapping[str, Any] | None,
    ) -> AnswerRouting:
        """The routing of the choice that became `turn`; `backend` is what a probe found, as in the log."""
        if not reading.routed_experts:
            return _missing(turn) if asked.wanted else NOTHING
        place = Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
        counts = len(turn.prompt_ids), len(turn.sampled_ids)
        facts = BackendFacts.from_record(backend) if backend else None
        shape = self._named or moe_shape(facts.model_config if facts else None)
        try:
            rows = self._rows(reading, asked.start, counts, shape, place)
        except UndecodableRouting as error:
            return AnswerRouting(findings=(place.error("routing_shape", str(error)),), contradicts=True)
        return _judged(rows, reading, shape, facts, place)

    def _rows(
        self, reading: ChoiceReading, start: int, counts: tuple[int, int], shape: MoeShape, place: Place
    ) -> RoutedRows:
        sources = _distinct(reading)
        if len(sources) > 1:
            raise UndecodableRouting(f"{' and '.join(sources)} tell different rows")
        numbers = decoded(next(iter(sources.values())), reading.routed_experts_dtype)
        shape = _told_shape(numbers, shape)
        row_size = shape.row_size or self._row_sizes.get(place.log) or _size_of_rows(numbers, start, counts)
        first, rows = _placed(numbers.size, row_size, start, counts)
        if shape.row_size is None and shape.layers and not row_size % shape.layers:
            shape = MoeShape(shape.layers, row_size // shape.layers, shape.experts, shape.dense_layers)
        self._row_sizes.setdefault(place.log, row_size)
        layout = (shape.layers, shape.top_k) if shape.layers and shape.top_k else (row_size, 1)
        experts = numbers[: rows * row_size] if numbers.ndim == 1 else numbers[:rows]
        return RoutedRows(first, experts.reshape(rows, *layout), has_shape=shape.row_size is not None)


def _missing(turn: Turn) -> AnswerRouting:
    place = Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
    message = "routed experts were asked for, and the answer holds none"
    return AnswerRouting(findings=(place.warning("missing_routing", message),))


def _distinct(reading: ChoiceReading) -> dict[str, Any]:
    """The routing of each place that tells another one than those before it."""
    found: dict[str, Any] = {}
    for source, text in reading.routed_experts.items():
        if text not in found.values():
            found[source] = text
    return found


def _told_shape(numbers: Experts, shape: MoeShape) -> MoeShape:
    """The shape, where the answer tells it itself that one."""
    if numbers.ndim == 1:
        return shape
    _, layers, top_k = numbers.shape
    if layers != (shape.layers or layers) or top_k != (shape.top_k or top_k):
        expected = f"{shape.layers or 'any'} x {shape.top_k or 'any'}"
        raise UndecodableRouting(f"rows of {layers} layers x {top_k} experts, expected {expected}")
    return MoeShape(layers, top_k, shape.experts, shape.dense_layers)


def _size_of_rows(numbers: Experts, start: int, counts: tuple[int, int]) -> int:
    """Ids of a row when only their number tells."""
    rows = sum(counts) - 1 - start
    if rows <= 0 or numbers.size % rows or not numbers.size:
        raise UndecodableRouting(f"{numbers.size} ids are no whole number for each of {rows} rows")
    return numbers.size // rows


def _placed(size: int, row_size: int, start: int, counts: tuple[int, int]) -> tuple[int, int]:
    """(index of the first row, number of rows) of `size` ids."""
    whole = sum(counts) - 1
    found, rest = divmod(size, row_size)
    # number of rows -> where they can begin; two for one number where a start of 1 was asked
    fits: dict[int, set[int]] = {}
    for first in (start, 0):
        for tail in (0, 1):
            fits.setdefault(whole - first + tail, set()).add(first)
    possible = fits.get(found, set()) if not rest else set()
    if len(possible) != 1:
        raise UndecodableRouting(
            f"{size} ids are {size / row_size:g} rows of {row_size}, expected {whole - start} "
            f"for {counts[0]} prompt and {counts[1]} sampled ids" + (f" from row {start} on" if start else "")
        )
    (first,) = possible
    return first, min(found, whole - first)


def _judged(
    rows: RoutedRows, reading: ChoiceReading, shape: MoeShape, facts: BackendFacts | None, place: Place
) -> AnswerRouting:
    """The rows, unless they cannot be believed."""
    origin, values = list(origin_doubts(reading, facts)), list(value_doubts(rows, shape))
    findings = [place.warning(UNTRUSTED, doubt) for doubt in origin]
    findings += [place.warning("routing_value", doubt) for doubt in values]
    retracted = is_retracted(reading)
    if retracted:
        findings.append(place.warning(UNTRUSTED, _retraction(bool(reading.weight_spans))))
    is_known = not origin and not values and (not retracted or bool(reading.weight_spans))
    if is_known:
        rows = RoutedRows(rows.start, narrowed(rows.experts), rows.has_shape)
    return AnswerRouting(rows if is_known else None, (UNTRUSTED,) if findings else (), tuple(findings))


def _retraction(has_spans: bool) -> str:
    what = "the rows of what was sampled before are those of the recomputation"
    kept = "; weight_versions tell which tokens these are" if has_spans else "; they are left out"
    return f"the engine took the request off the device and computed it again: {what}{kept}"
