"""Rows that an answer leaves out and the backend had computed anew, told by a second answer.

Capture asks for all rows once more where a reply with only the last ones shows that the backend had lost some
of those before them. What the second answer tells of tokens that were at hand for it are the rows that the
first was computed with: nothing else but that computation put them there. Where it cannot be sure of that,
they stay unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.compiler.agreement import prompt_ids_of, sampled_ids_of
from turnstile.compiler.finding import Place
from turnstile.compiler.prompt_texts import PromptTexts
from turnstile.compiler.routing.joined import KnownRouting
from turnstile.compiler.routing.reading import AnswerRouting, Asked, RoutingReader
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.token_ids import INT32_LIMIT
from turnstile.compiler.turn import Turn
from turnstile.compiler.weights import weight_spans_of


class _NotTold(Exception):
    """The second answer does not tell the rows; the message says why."""


def with_all_rows(
    told: AnswerRouting,
    second_reply: bytes,
    turn: Turn,
    reader: RoutingReader,
    backend: Mapping[str, Any] | None,
) -> AnswerRouting:
    """What an answer tells of its routing, with the rows before it that `second_reply` tells; b"" is none."""
    if not second_reply or told.rows is None or not told.rows.start or turn.num_retractions:
        return told
    place = Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
    try:
        rows = _completed(told.rows, _reading(second_reply), turn, place, reader, backend)
    except _NotTold as error:
        message = (
            f"all rows were asked for once more, and {error}; those before {told.rows.start} are unknown"
        )
        return told._replace(findings=(*told.findings, place.warning("missing_routing", message)))
    return told._replace(rows=rows)


def _reading(reply: bytes) -> ChoiceReading:
    try:
        readings = read_chat(reply)
    except UndecodableReply as error:
        raise _NotTold(f"the answer cannot be read: {error}") from error
    if len(readings) != 1:
        raise _NotTold(f"the answer has {len(readings)} choices, expected one")
    return readings[0]


def _completed(
    rows: RoutedRows,
    reading: ChoiceReading,
    turn: Turn,
    place: Place,
    reader: RoutingReader,
    backend: Mapping[str, Any] | None,
) -> RoutedRows:
    second = _second_turn(reading, turn, place)
    fault = next(_faults(reading, second, turn, rows), "")
    if fault:
        raise _NotTold(fault)
    found = reader.read(reading, Asked(wanted=True), second, backend)
    if found.rows is None or found.flags or found.rows.experts.shape[1:] != rows.experts.shape[1:]:
        raise _NotTold("the answer tells no rows that could be believed")
    at_hand = RoutedRows(0, found.rows.experts[: reading.cached_tokens], found.rows.has_shape)
    known = KnownRouting()
    known.add(rows)
    if (differs := known.difference(at_hand)) is not None:
        raise _NotTold(f"row {differs.row} of the answer is another one")
    experts = np.concatenate((at_hand.experts[: rows.start], rows.experts))
    return RoutedRows(0, experts, rows.has_shape and at_hand.has_shape)


def _second_turn(reading: ChoiceReading, turn: Turn, place: Place) -> Turn:
    """The second answer as a turn, as far as its routing depends on that."""
    prompt_ids, _ = prompt_ids_of(reading, PromptTexts(), INT32_LIMIT, place)
    sampled_ids, _ = sampled_ids_of(reading, INT32_LIMIT, place)
    if prompt_ids is None or sampled_ids is None:
        raise _NotTold("the answer's token ids are not known")
    return replace(turn, prompt_ids=prompt_ids, sampled_ids=sampled_ids)


def _faults(reading: ChoiceReading, second: Turn, turn: Turn, rows: RoutedRows) -> Iterator[str]:
    if not np.array_equal(second.prompt_ids, turn.prompt_ids):
        yield "the answer is to another prompt"
    if reading.num_retractions:
        yield "the backend computed its prompt more than once"
    if type(cached := reading.cached_tokens) is not int or not rows.start <= cached <= len(turn.prompt_ids):
        yield f"the backend had {cached} tokens at hand then, expected {rows.start} at least"
    place = Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
    versions, _ = weight_spans_of(
        reading.weight_versions, reading.weight_spans, len(second.sampled_ids), place
    )
    told = {version for _, version in (*versions, *turn.weight_spans)}
    if len(told) > 1:
        yield f"the weights were {' and '.join(sorted(map(repr, told)))}, expected the same for both answers"
