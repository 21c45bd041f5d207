from typing import Any

import numpy as np
import pytest

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from tests.support.logs import answered, answered_choice, replied
from turnstile.addon.tracelog.records import Exchange, Splice
from turnstile.compiler.finding import Finding
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.turns import ExchangeTurns, Texts, turns_of
from turnstile.compiler.wording import Conversation, reply_digest

USER = {"role": "user", "content": "Count."}


def read(recorded: Exchange) -> ExchangeTurns:
    return turns_of(recorded, "a.tslog", 64, Texts())


def said(findings: tuple[Finding, ...]) -> list[tuple[str, str, int | None]]:
    return [(finding.kind, finding.severity, finding.choice) for finding in findings]


def ids(turn: Turn) -> tuple[list[int], list[int]]:
    return turn.prompt_ids.tolist(), turn.sampled_ids.tolist()


def test_a_turn_has_all_that_the_exchange_tells() -> None:
    request = {"messages": [USER], "temperature": 0.5, "stop": ["x"], "user": "u"}
    recorded = answered(3, [1, 2], [7, 8], request=request, group_id="task", rollout_id="r")
    ((turn,), findings, answers) = (read(recorded).turns, read(recorded).findings, read(recorded).answers)
    assert (findings, answers) == ((), ())
    assert ids(turn) == ([1, 2], [7, 8])
    assert turn.logprobs.tolist() == [-0.125, -0.25]
    assert (turn.exchange_id, turn.choice, turn.group_id, turn.rollout_id) == (
        recorded.exchange_id,
        0,
        "task",
        "r",
    )
    assert (turn.started_at, turn.log, turn.offset) == (1003.0, "a.tslog", 64)
    assert (turn.finish_reason, turn.flags) == ("stop", ())
    assert (turn.weight_spans, turn.cached_tokens, turn.num_retractions) == (((0, "step-1"),), 1, 0)
    assert turn.sampling == {"temperature": 0.5, "stop": ["x"]}
    reply = {"role": "assistant", "content": "4"}
    assert turn.wording == Wording(Conversation().extended([USER]).digest, reply_digest(reply))


def test_each_choice_is_a_turn_of_its_own() -> None:
    reply = completion(answered_choice(0, [1, 2], [7]), answered_choice(1, [1, 2], [8, 9]))
    first, second = read(replied(1, reply)).turns
    assert (first.choice, ids(first)) == (0, ([1, 2], [7]))
    assert (second.choice, ids(second)) == (1, ([1, 2], [8, 9]))


def test_the_answers_of_the_request_are_told() -> None:
    answer = {"role": "assistant", "content": "4"}
    recorded = answered(1, [1], [2], request={"messages": [USER, answer, USER]})
    assert read(recorded).answers == Conversation().extended([USER, answer, USER]).answers


def test_sampling_parameters_are_those_that_the_backend_got() -> None:
    harness = compact({"messages": [USER], "n": 1})
    added = Splice(len(harness) - 1, len(harness) - 1, b',"temperature":0.5')
    recorded = answered(1, [1], [2])
    spliced = exchange(1, request=harness, splices=(added,), reply=recorded.reply)
    assert read(spliced).turns[0].sampling == {"n": 1, "temperature": 0.5}


def test_a_request_that_is_no_object_leaves_its_parameters_unknown() -> None:
    recorded = exchange(1, request=b"no JSON", reply=answered(1, [1], [2]).reply)
    found = read(recorded)
    assert (found.turns[0].sampling, said(found.findings)) == ({}, [("undecodable", "warning", None)])


def test_ids_beyond_the_vocabulary_of_the_model_are_refused() -> None:
    facts = {"kind": "sglang", "model_config": {"vocab_size": 100}}
    found = read(answered(1, [1, 99], [100], backend=facts))
    assert (found.turns, said(found.findings)) == ((), [("token_out_of_range", "error", 0)])
    assert len(read(answered(1, [1, 99], [100])).turns) == 1


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"prompt_token_ids": None}, ["missing_token_ids"]),
        ({"meta_info": None}, ["missing_token_ids"]),
        ({"response_token_ids": [7, 9]}, ["token_source_conflict"]),
        ({"response_token_ids": [7.0, "8"]}, ["token_type"]),
        ({"prompt_token_ids": [1, -2]}, ["token_out_of_range"]),
        ({"prompt_token_ids": [1, 2, 3]}, ["token_count_mismatch"] * 2),
        ({"logprobs": {"content": [{"token": "a", "logprob": -0.125}]}}, ["logprob_count_mismatch"]),
    ],
)
def test_a_choice_with_a_fault_is_left_out_alone(fields: dict[str, Any], kinds: list[str]) -> None:
    bad = answered_choice(0, [1, 2], [7, 8]) | fields
    usage = {"prompt_tokens": 2, "completion_tokens": 4}
    found = read(replied(1, completion(bad, answered_choice(1, [1, 2], [9]), usage=usage)))
    assert [(turn.choice, ids(turn)) for turn in found.turns] == [(1, ([1, 2], [9]))]
    assert said(found.findings) == [(kind, "error", 0) for kind in kinds]


def test_more_rows_than_were_counted_are_a_mismatch() -> None:
    bad = answered_choice(0, [1, 2], [7, 8, 9], meta_info={"completion_tokens": 2})
    found = read(replied(1, completion(bad, usage={"prompt_tokens": 2, "completion_tokens": 2})))
    assert (found.turns, said(found.findings)) == ((), [("token_count_mismatch", "error", 0)] * 2)


def test_ids_without_any_logprob_are_left_out() -> None:
    bad = answered_choice(0, [1, 2], [7, 8], response_token_ids=[7, 8]) | {"logprobs": None}
    del bad["meta_info"]["output_token_logprobs"]
    found = read(replied(1, completion(bad, usage={"prompt_tokens": 2, "completion_tokens": 2})))
    assert (found.turns, said(found.findings)) == ((), [("missing_logprobs", "error", 0)])


def test_an_unknown_logprob_leaves_the_turn_with_a_flag() -> None:
    bad = choice(0, prompt_ids=(1,), sampled=((-0.5, 7, "a"), (None, 8, "b"), (-0.75, 9, "c")))
    found = read(replied(1, completion(bad)))
    (turn,) = found.turns
    assert np.array_equal(turn.logprobs, [-0.5, np.nan, -0.75], equal_nan=True)
    assert (turn.flags, said(found.findings)) == (("logprobs_partial",), [("logprob_invalid", "error", 0)])


def test_an_answer_broken_off_is_kept_with_a_flag() -> None:
    found = read(answered(1, [1], [7], choice_fields={"finish_reason": "abort"}))
    assert [(ids(turn), turn.flags) for turn in found.turns] == [(([1], [7]), ("aborted",))]
    assert said(found.findings) == [("aborted", "warning", 0)]


def test_an_abort_from_the_waiting_queue_counts_no_prompt() -> None:
    queued = answered_choice(0, [1, 2], [7], finish_reason="abort")
    del queued["meta_info"]["prompt_tokens"]
    found = read(replied(1, completion(queued, usage={"prompt_tokens": 0, "completion_tokens": 1})))
    assert [ids(turn) for turn in found.turns] == [([1, 2], [7])]


@pytest.mark.parametrize("known", [True, False])
def test_an_abort_before_the_first_token_is_no_turn(known: bool) -> None:
    empty = answered_choice(0, [1, 2], [], finish_reason="abort")
    if not known:
        empty = {"index": 0, "message": empty["message"], "finish_reason": "abort", "meta_info": {}}
    found = read(replied(1, completion(empty, usage={"prompt_tokens": 0, "completion_tokens": 0})))
    assert (found.turns, said(found.findings)) == ((), [("aborted", "warning", 0)])


def test_an_answer_without_a_token_is_no_turn() -> None:
    found = read(replied(1, completion(answered_choice(0, [1, 2], []))))
    assert (found.turns, said(found.findings)) == ((), [("nothing_sampled", "warning", 0)])


def test_an_answer_that_nobody_got_is_kept_with_a_flag() -> None:
    found = read(answered(1, [1], [7], delivered=False))
    assert [turn.flags for turn in found.turns] == [("undelivered",)]
    assert said(found.findings) == [("undelivered", "warning", None)]


def test_the_version_of_a_choice_spans_what_it_sampled() -> None:
    spans = [{"version": "7", "start": 0, "end": 1}, {"version": "8", "start": 1, "end": 2}]
    fields = {"meta_info": {"weight_version": "8", "weight_versions": spans, "num_retractions": 1}}
    (turn,) = read(answered(1, [1], [7, 8], choice_fields=fields)).turns
    assert (turn.weight_spans, turn.num_retractions) == (((0, "7"), (1, "8")), 1)


def test_spans_with_a_gap_leave_the_version_unknown() -> None:
    fields = {"meta_info": {"weight_versions": [{"version": "7", "start": 1, "end": 2}]}}
    found = read(answered(1, [1], [7, 8], choice_fields=fields))
    assert found.turns[0].weight_spans == ()
    assert said(found.findings) == [("weight_versions_invalid", "warning", 0)]


IMAGE = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}],
}


@pytest.mark.parametrize(
    ("request_fields", "meta_info", "what"),
    [
        ({"messages": [USER], "return_routed_experts": True}, {}, "routed experts"),
        ({"messages": [USER]}, {"routed_experts": "AAAA"}, "routed experts"),
        ({"messages": [USER, IMAGE]}, {}, "images"),
        ({"messages": [IMAGE]}, {"routed_experts": "AAAA"}, "routed experts and images"),
    ],
)
def test_what_is_more_than_text_is_compiled_as_text_and_said(
    request_fields: dict[str, Any], meta_info: dict[str, Any], what: str
) -> None:
    found = read(answered(1, [1], [7], request=request_fields, choice_fields={"meta_info": meta_info}))
    assert [ids(turn) for turn in found.turns] == [([1], [7])]
    assert said(found.findings) == [("not_compiled", "warning", None)]
    assert found.findings[0].message == (
        f"holds {what}, which this version does not compile; its tokens are compiled as text"
    )


def test_without_a_reply_there_are_no_turns() -> None:
    found = read(exchange(1, status=500, reply=b"oops"))
    assert (found.turns, found.answers, said(found.findings)) == ((), (), [("upstream_error", "error", None)])
