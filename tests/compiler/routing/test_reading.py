from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import completion
from tests.support.logs import answered_choice, replied
from tests.support.routing import MOE_CONFIG, encoded, experts, facts, npy, reading_of, routed
from tests.support.turns import LOG, turn
from turnstile.addon.backends.facts import BackendFacts
from turnstile.compiler.finding import Place
from turnstile.compiler.routing.reading import AnswerRouting, Asked, RoutingReader
from turnstile.compiler.turns import Texts, turns_of
from turnstile.compiler.weights import weight_spans_of

PROMPT, SAMPLED = [1, 2, 3, 4], [7, 8]  # 5 rows
UNSHAPED = facts(model_config=None)
LAYERS_ONLY = facts(model_config={"num_hidden_layers": 2})


def read(
    sent: Any,
    *,
    start: int = 0,
    prompt: Sequence[int] = PROMPT,
    sampled: Sequence[int] = SAMPLED,
    backend: BackendFacts | None = None,
    reader: RoutingReader | None = None,
    log: str = LOG,
    **meta_info: Any,
) -> AnswerRouting:
    reading = reading_of(routed(1, prompt, sampled, sent, meta_info=meta_info))
    place = Place("e1", 0, log, 1)
    spans, _ = weight_spans_of(reading.weight_versions, reading.weight_spans, len(sampled), place)
    its_turn = turn(1, prompt, sampled, log=log, weight_spans=spans)
    reader, asked = reader or RoutingReader(), Asked(True, start)
    return reader.read(reading, asked, its_turn, (backend or facts()).as_record())


def told(found: AnswerRouting) -> tuple[int, list[Any]]:
    """First row and all rows of an answer that is believed."""
    assert (found.flags, found.findings, found.contradicts) == ((), (), False)
    assert found.rows is not None
    return found.rows.start, found.rows.experts.tolist()


def said(found: AnswerRouting) -> list[tuple[str, str, str]]:
    return [(finding.kind, finding.severity, finding.message) for finding in found.findings]


def refused(found: AnswerRouting) -> str:
    """Why the answer cannot belong to its ids."""
    ((kind, severity, message),) = said(found)
    assert (kind, severity, found.contradicts, found.rows) == ("routing_shape", "error", True, None)
    return message


def ambiguous(found: AnswerRouting) -> str:
    """Why nothing tells which tokens the rows belong to; that is no reason to doubt the turn."""
    ((kind, severity, message),) = said(found)
    assert (kind, severity, found.rows) == ("routing_shape", "warning", None)
    assert (found.flags, found.contradicts) == ((), False)
    return message


@pytest.mark.parametrize(
    ("request_fields", "asked"),
    [
        ({}, Asked(False, 0)),
        ({"return_routed_experts": True}, Asked(True, 0)),
        ({"return_routed_experts": True, "routed_experts_start_len": 3}, Asked(True, 3)),
        ({"return_routed_experts": True, "routed_experts_start_len": -1}, Asked(True, 0)),
        ({"return_routed_experts": True, "routed_experts_start_len": True}, Asked(True, 0)),
        ({"return_routed_experts": True, "routed_experts_start_len": None}, Asked(True, 0)),
        ({"return_routed_experts": False, "routed_experts_start_len": 3}, Asked(False, 0)),
        ({"routed_experts_start_len": 3}, Asked(False, 0)),
    ],
)
def test_a_request_tells_what_was_asked_for(request_fields: dict[str, Any], asked: Asked) -> None:
    assert Asked.by(request_fields) == asked


def test_an_answer_has_a_row_for_every_token_but_the_last() -> None:
    assert told(read(experts(1, 2, 3, 4, 5))) == (0, experts(1, 2, 3, 4, 5).tolist())


def test_the_row_of_the_last_token_is_cut_off() -> None:
    assert told(read(experts(1, 2, 3, 4, 5, 6))) == (0, experts(1, 2, 3, 4, 5).tolist())


def test_an_answer_may_leave_out_the_rows_that_were_not_wanted() -> None:
    assert told(read(experts(4, 5), start=3)) == (3, experts(4, 5).tolist())
    assert told(read(experts(4, 5, 6), start=3)) == (3, experts(4, 5).tolist())


def test_a_server_may_pass_over_the_start() -> None:
    assert told(read(experts(1, 2, 3, 4, 5), start=3)) == (0, experts(1, 2, 3, 4, 5).tolist())
    assert told(read(experts(1, 2, 3, 4, 5, 6), start=3)) == (0, experts(1, 2, 3, 4, 5).tolist())


def test_five_rows_after_a_start_of_one_may_begin_at_either_and_are_unknown() -> None:
    found = read(experts(1, 2, 3, 4, 5), start=1)
    assert ambiguous(found) == (
        "20 ids can be 5 rows of 4 from 0 on or 4 rows of 4 from 1 on, and nothing tells which; name the "
        "model's folder with --model"
    )
    assert told(read(experts(2, 3, 4, 5), start=1)) == (1, experts(2, 3, 4, 5).tolist())
    assert told(read(experts(1, 2, 3, 4, 5, 6), start=1)) == (0, experts(1, 2, 3, 4, 5).tolist())


@pytest.mark.parametrize(
    ("size", "start", "message"),
    [
        (16, 0, "16 ids are 4 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (28, 0, "28 ids are 7 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (18, 0, "18 ids are 4.5 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (22, 0, "22 ids are 5.5 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (0, 0, "0 ids are 0 rows of 4, expected 5 for 4 prompt and 2 sampled ids"),
        (4, 3, "4 ids are 1 rows of 4, expected 2 for 4 prompt and 2 sampled ids from row 3 on"),
        (16, 3, "16 ids are 4 rows of 4, expected 2 for 4 prompt and 2 sampled ids from row 3 on"),
    ],
)
def test_any_other_number_of_rows_contradicts_the_ids(size: int, start: int, message: str) -> None:
    assert refused(read(np.arange(size), start=start)) == message


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 12), st.data())
def test_rows_are_placed_only_where_a_single_place_fits(
    prompt: int, sampled: int, count: int, data: st.DataObject
) -> None:
    start, whole = data.draw(st.integers(0, prompt)), prompt + sampled - 1
    places = {first for first in (start, 0) for tail in (0, 1) if whole - first + tail == count}
    found = read(experts(*range(count)), start=start, prompt=[1] * prompt, sampled=[2] * sampled)
    if len(places) == 1:
        (first,) = places
        assert told(found) == (first, experts(*range(min(count, whole - first))).tolist())
    elif places:
        ambiguous(found)
    else:
        refused(found)


def test_ids_take_the_smallest_type() -> None:
    for highest, dtype in ((60, np.uint8), (300, np.uint16)):
        backend = facts(model_config=MOE_CONFIG | {"num_experts": 512})
        found = read(experts(1, 2, 3, 4, highest), backend=backend)
        assert found.rows is not None and found.rows.experts.dtype == dtype
        assert told(found) == (0, experts(1, 2, 3, 4, highest).tolist())


def test_the_type_of_the_ids_is_read_where_it_is_told() -> None:
    sent = encoded(experts(1, 2, 3, 4, 5), "uint8")
    assert told(read(sent, routed_experts_dtype="uint8")) == (0, experts(1, 2, 3, 4, 5).tolist())
    assert "5 ids are 1.25 rows of 4" in refused(read(sent))


@pytest.mark.parametrize("sent", ["no base64", 7, [1], {}, npy(np.zeros(20, np.uint8))])
def test_what_is_no_routing_contradicts_the_ids(sent: Any) -> None:
    refused(read(sent))


def test_routing_that_was_asked_for_and_is_not_there_is_missing() -> None:
    assert read(None) == AnswerRouting(findings=read(None).findings)
    assert said(read(None)) == [
        ("missing_routing", "warning", "routed experts were asked for, and the answer holds none")
    ]


def test_routing_that_nobody_asked_for_is_not_missing() -> None:
    reading = reading_of(routed(1, PROMPT, SAMPLED, None))
    found = RoutingReader().read(reading, Asked(), turn(1, PROMPT, SAMPLED), facts().as_record())
    assert found == AnswerRouting()


def test_routing_that_nobody_asked_for_is_read() -> None:
    reading = reading_of(routed(1, PROMPT, SAMPLED, experts(1, 2, 3, 4, 5)))
    found = RoutingReader().read(reading, Asked(), turn(1, PROMPT, SAMPLED), None)
    assert found.rows is not None and len(found.rows.experts) == 5


def two_places(one: Any, other: Any) -> AnswerRouting:
    choice = answered_choice(0, PROMPT, SAMPLED, meta_info={"routed_experts": one})
    reading = reading_of(replied(1, completion(choice, sglext={"routed_experts": other})))
    return RoutingReader().read(reading, Asked(True), turn(1, PROMPT, SAMPLED), facts().as_record())


def test_two_places_must_tell_the_same() -> None:
    sent, other = encoded(experts(1, 2, 3, 4, 5)), encoded(experts(1, 2, 3, 4, 6))
    assert told(two_places(sent, sent)) == (0, experts(1, 2, 3, 4, 5).tolist())
    assert told(two_places(None, sent)) == (0, experts(1, 2, 3, 4, 5).tolist())
    assert refused(two_places(sent, other)) == (
        "meta_info.routed_experts and sglext.routed_experts tell different rows"
    )


def test_an_npy_file_tells_the_shape_itself() -> None:
    found = read(npy(experts(1, 2, 3, 4, 5, 6).astype(np.uint8)), backend=UNSHAPED)
    assert told(found) == (0, experts(1, 2, 3, 4, 5).tolist())
    assert found.rows is not None and found.rows.has_shape


def test_the_shape_of_an_npy_file_must_be_the_models() -> None:
    swapped = npy(np.resize(experts(1, 2, 3, 4, 5), (5, 4, 1)))
    assert refused(read(swapped)) == "rows of 4 layers x 1 experts, expected 2 x 2"
    assert refused(read(swapped, backend=LAYERS_ONLY)) == "rows of 4 layers x 1 experts, expected 2 x any"
    top_k_only = facts(model_config={"num_experts_per_tok": 2})
    assert refused(read(swapped, backend=top_k_only)) == "rows of 4 layers x 1 experts, expected any x 2"


def test_the_model_that_the_user_named_comes_before_the_one_in_the_log() -> None:
    other = facts(model_config={"num_hidden_layers": 4, "num_experts_per_tok": 1})
    reader = RoutingReader(MOE_CONFIG)
    assert (
        told(read(experts(1, 2, 3, 4, 5), backend=other, reader=reader))[1] == experts(1, 2, 3, 4, 5).tolist()
    )


def test_without_a_shape_the_number_of_ids_tells_the_size_of_a_row() -> None:
    found = read(experts(1, 2, 3, 4, 5), backend=UNSHAPED)
    assert found.rows is not None and not found.rows.has_shape
    assert told(found) == (0, experts(1, 2, 3, 4, 5).reshape(5, 4, 1).tolist())
    assert refused(read(np.arange(19), backend=UNSHAPED)) == (
        "19 ids are no whole number for each row, expected 5 for 4 prompt and 2 sampled ids"
    )
    assert "0 ids are no whole number" in refused(read("", backend=UNSHAPED))


def test_a_size_that_fits_two_readings_is_not_guessed_and_binds_no_later_answer() -> None:
    reader = RoutingReader()
    six, three = [1] * 6, [2] * 3
    found = read(experts(*range(8)), start=4, prompt=six, sampled=three, backend=UNSHAPED, reader=reader)
    assert ambiguous(found).startswith("32 ids can be 8 rows of 4 from 0 on or 4 rows of 8 from 4 on")
    later = read(experts(*range(9)), prompt=[1] * 7, sampled=three, backend=UNSHAPED, reader=reader)
    assert told(later) == (0, experts(*range(9)).reshape(9, 4, 1).tolist())


def test_a_row_of_the_last_token_does_not_make_the_rows_wider() -> None:
    found = read(experts(1, 20, 40), prompt=[1], sampled=[7, 8], backend=LAYERS_ONLY)
    assert ambiguous(found).startswith("12 ids can be 2 rows of 4 from 0 on or 2 rows of 6 from 0 on")


def test_an_answer_without_a_row_to_tell_needs_no_shape() -> None:
    found = ambiguous(read("", start=4, sampled=[7], backend=UNSHAPED))
    assert found.startswith("no ids came, and no row was due")
    assert told(read("", start=4, sampled=[7])) == (4, [])


def test_a_size_of_a_row_holds_for_the_answers_of_its_log() -> None:
    reader = RoutingReader()
    read(experts(1, 2, 3, 4, 5), backend=UNSHAPED, reader=reader)
    assert "4 rows of 4, expected 5" in refused(read(np.arange(16), backend=UNSHAPED, reader=reader))
    found = read(experts(4, 5, 6), start=3, backend=UNSHAPED, reader=reader)
    assert told(found) == (3, experts(4, 5).reshape(2, 4, 1).tolist())
    other_log = read(np.arange(10), backend=UNSHAPED, reader=reader, log="b.tslog")
    assert told(other_log) == (0, np.arange(10).reshape(5, 2, 1).tolist())


def test_each_answer_is_read_by_what_its_own_backend_told() -> None:
    reader, single = RoutingReader(), facts(model_config={"num_hidden_layers": 4, "num_experts_per_tok": 1})
    sent = experts(1, 2, 3, 4, 5)
    for backend, shape in ((facts(), (5, 2, 2)), (single, (5, 4, 1)), (facts(), (5, 2, 2))):
        assert told(read(sent, backend=backend, reader=reader)) == (0, sent.reshape(shape).tolist())


def test_a_shape_that_one_answer_told_gives_the_size_of_a_row_to_those_after() -> None:
    reader = RoutingReader()
    read(experts(1, 2, 3, 4, 5), reader=reader)
    assert "2.5 rows of 4" in refused(read(np.arange(10), backend=UNSHAPED, reader=reader))


def test_layers_and_the_size_of_a_row_tell_the_experts_a_token() -> None:
    found = read(experts(1, 2, 3, 4, 5), backend=LAYERS_ONLY)
    assert found.rows is not None and found.rows.has_shape
    assert told(found) == (0, experts(1, 2, 3, 4, 5).tolist())


def test_a_size_of_a_row_that_the_layers_do_not_divide_contradicts_the_ids() -> None:
    found = read(experts(1, 2, 3, 4, 5), backend=facts(model_config={"num_hidden_layers": 3}))
    assert refused(found) == (
        "20 ids are no whole number for each row of 3 layers, expected 5 for 4 prompt and 2 sampled ids"
    )


def test_an_id_that_no_type_holds_is_doubted_whatever_the_model_says() -> None:
    backend = facts(model_config=MOE_CONFIG | {"num_experts": 100_000})
    found = read(experts(1, 2, 3, 4, 70_000), backend=backend)
    assert (found.rows, found.flags) == (None, ("routing_untrusted",))
    assert "expected one below 65536" in said(found)[0][2]


def test_values_that_cannot_be_leave_the_routing_unknown() -> None:
    found = read(experts(1, 2, 3, 4, 62))
    assert (found.rows, found.flags, found.contradicts) == (None, ("routing_untrusted",), False)
    assert said(found) == [
        ("routing_value", "warning", "row 4, layer 1 names expert 65, expected one below 64")
    ]


def test_the_row_that_is_cut_off_is_not_judged() -> None:
    assert told(read(experts(1, 2, 3, 4, 5, -9))) == (0, experts(1, 2, 3, 4, 5).tolist())


def test_rows_that_are_told_from_a_start_are_named_by_their_token() -> None:
    ((_, _, message),) = said(read(experts(4, -2), start=3))
    assert message == "row 4, layer 0 names expert -2"


def test_rows_of_a_doubtful_origin_leave_the_routing_unknown() -> None:
    found = read(experts(1, 2, 3, 4, 5), cached_tokens_details={"device": 1, "host": 3})
    assert (found.rows, found.flags, found.contradicts) == (None, ("routing_untrusted",), False)
    assert [(kind, severity) for kind, severity, _ in said(found)] == [("routing_untrusted", "warning")]
    old = read(experts(1, 2, 3, 4, 5), backend=facts(version=(0, 5, 12)))
    assert (old.rows, old.flags) == (None, ("routing_untrusted",))


def test_all_that_is_doubtful_is_said_and_flagged_once() -> None:
    found = read(experts(1, 2, 3, 4, 62), cached_tokens_details={"host": 3}, num_retractions=1)
    kinds = [kind for kind, _, _ in said(found)]
    assert kinds == ["routing_untrusted", "routing_value", "routing_untrusted"]
    assert (found.rows, found.flags) == (None, ("routing_untrusted",))


def test_after_a_retraction_without_weight_spans_the_routing_is_unknown() -> None:
    found = read(experts(1, 2, 3, 4, 5), num_retractions=1, weight_versions=None)
    assert (found.rows, found.flags) == (None, ("routing_untrusted",))
    assert [(kind, severity) for kind, severity, _ in said(found)] == [("routing_untrusted", "warning")]
    assert said(found)[0][2].endswith("; they are left out")


def test_after_a_retraction_with_weight_spans_the_rows_are_kept_and_flagged() -> None:
    spans = [{"version": "1", "start": 0, "end": 1}, {"version": "2", "start": 1, "end": 2}]
    found = read(experts(1, 2, 3, 4, 5), num_retractions=1, weight_versions=spans)
    assert found.rows is not None
    assert (found.rows.experts.tolist(), found.flags) == (
        experts(1, 2, 3, 4, 5).tolist(),
        ("routing_untrusted",),
    )
    assert said(found)[0][2].endswith("; weight_versions tell which tokens these are")


@pytest.mark.parametrize("spans", [None, [], "junk", [{"version": "1", "start": 1, "end": 2}]])
def test_after_a_retraction_a_single_version_and_spans_that_cannot_be_read_are_no_spans(spans: Any) -> None:
    fields = {"num_retractions": 1, "weight_version": "2", "weight_versions": spans}
    assert read(experts(1, 2, 3, 4, 5), **fields).rows is None


def test_a_finding_says_where_the_answer_is() -> None:
    (finding,) = read(None).findings
    assert (finding.exchange_id, finding.choice, finding.log, finding.offset) == ("e1", 0, LOG, 1)


def test_each_choice_has_its_own_routing_and_spoils_no_other() -> None:
    sent = [
        encoded(experts(1, 2, 3, 4, 5)),
        encoded(experts(1, 2, 3)),
        None,
        encoded(experts(1, 2, 3, 4, -9)),
    ]
    choices = [
        answered_choice(at, PROMPT, [7, at], meta_info={"routed_experts": text})
        for at, text in enumerate(sent)
    ]
    request = {"messages": [], "n": 4, "return_routed_experts": True}
    recorded = replied(1, completion(*choices), request=request, backend=facts().as_record())
    found = turns_of(recorded, LOG, 0, Texts())
    assert [(each.choice, each.flags) for each in found.turns] == [
        (0, ()),
        (2, ()),
        (3, ("routing_untrusted",)),
    ]
    assert {at: told.experts.tolist() for at, told in found.routing.items()} == {
        0: experts(1, 2, 3, 4, 5).tolist()
    }
    assert [(finding.kind, finding.choice) for finding in found.findings] == [
        ("routing_shape", 1),
        ("missing_routing", 2),
        ("routing_value", 3),
    ]
