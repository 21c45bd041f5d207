"""One answer's routing: decoded, placed at its tokens, and checked.

Rows whose number contradicts the ids keep the turn out. Rows that are there and cannot be believed leave the
turn in, flagged routing_untrusted, its routing unknown; so do rows that can be read in two ways, unflagged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.moe_shape import MoeShape, moe_shape
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.backends.row_placement import AmbiguousRouting, UndecodableRouting, placed
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.routing.decoding import decoded
from turnstile.compiler.routing.rows import Experts, RoutedRows, narrowed
from turnstile.compiler.routing.trust import origin_doubts, value_doubts
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
        wanted = request.get("return_routed_experts") is True
        of_sglang = request.get("routed_experts_start_len") if wanted else None
        starts = (of_sglang, request.get("routed_experts_prompt_start"))  # vLLM needs no wish besides
        return cls(wanted, next((start for start in starts if type(start) is int and start > 0), 0))


class RoutingReader:
    """Reads the routing of all answers of a compilation; `config` is the model's, where one was named."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._named = moe_shape(config) if config is not None else None
        self._last: tuple[Any, BackendFacts, MoeShape] | None = None  # record of a backend, what it tells
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
        facts, shape = self._known_of(backend)
        try:
            rows = self._rows(reading, asked.start, turn, shape)
        except UndecodableRouting as error:
            return AnswerRouting(findings=(place.error("routing_shape", str(error)),), contradicts=True)
        except AmbiguousRouting as error:
            ambiguous = f"{error}, and nothing tells which; name the model's folder with --model"
            return AnswerRouting(findings=(place.warning("routing_shape", ambiguous),))
        return _judged(rows, reading, shape, facts, turn, place)

    def _known_of(self, backend: Mapping[str, Any] | None) -> tuple[BackendFacts | None, MoeShape]:
        if backend is None:
            return None, self._named or MoeShape()
        if self._last is None or backend is not self._last[0]:
            facts = BackendFacts.from_record(backend)
            self._last = backend, facts, self._named or moe_shape(facts.model_config)
        return self._last[1:]

    def _rows(self, reading: ChoiceReading, start: int, turn: Turn, shape: MoeShape) -> RoutedRows:
        sources = _distinct(reading)
        if len(sources) > 1:
            raise UndecodableRouting(f"{' and '.join(sources)} tell different rows")
        numbers = decoded(next(iter(sources.values())), reading.routed_experts_dtype)
        shape = _told_shape(numbers, shape)
        row_size = shape.row_size or self._row_sizes.get(turn.log)
        counts = len(turn.prompt_ids), len(turn.sampled_ids)
        at = placed(numbers.size, row_size, shape.layers, start, counts)
        self._row_sizes.setdefault(turn.log, at.row_size)
        layers = shape.layers if shape.layers and not at.row_size % shape.layers else None
        layout = (layers, at.row_size // layers) if layers else (at.row_size, 1)
        experts = numbers[: at.rows * at.row_size] if numbers.ndim == 1 else numbers[: at.rows]
        return RoutedRows(at.first, experts.reshape(at.rows, *layout), has_shape=layers is not None)


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


def _judged(
    rows: RoutedRows,
    reading: ChoiceReading,
    shape: MoeShape,
    facts: BackendFacts | None,
    turn: Turn,
    place: Place,
) -> AnswerRouting:
    """The rows, unless they cannot be believed."""
    origin, values = list(origin_doubts(reading, facts)), list(value_doubts(rows, shape))
    findings = [place.warning(UNTRUSTED, doubt) for doubt in origin]
    findings += [place.warning("routing_value", doubt) for doubt in values]
    # Spans that cannot be read leave the turn none; without any it has one of a single version.
    has_spans = bool(turn.weight_spans) and any(reading.weight_spans.values())
    retracted = bool(reading.num_retractions)
    if retracted:
        findings.append(place.warning(UNTRUSTED, _retraction(has_spans)))
    if origin or values or (retracted and not has_spans):
        return AnswerRouting(None, (UNTRUSTED,), tuple(findings))
    narrow = RoutedRows(rows.start, narrowed(rows.experts), rows.has_shape)
    return AnswerRouting(narrow, (UNTRUSTED,) if retracted else (), tuple(findings))


def _retraction(has_spans: bool) -> str:
    what = "the rows of what was sampled before are those of the recomputation"
    kept = "; weight_versions tell which tokens these are" if has_spans else "; they are left out"
    return f"the engine took the request off the device and computed it again: {what}{kept}"
