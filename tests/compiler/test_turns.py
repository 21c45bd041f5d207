from typing import Any

import numpy as np
import pytest

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from tests.support.images import picture, sha256, shown
from tests.support.logs import answered, answered_choice, replied, stream_events, streamed
from turnstile.addon.tracelog.records import Exchange, Splice
from turnstile.compiler import turns as turns_module
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.image import Image
from turnstile.compiler.images.placing import image_placer
from turnstile.compiler.model_folders import ModelFolders
from turnstile.compiler.routing.reading import RoutingReader
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.turns import ExchangeTurns, Readers, Texts, turns_of
from turnstile.compiler.wording import Conversation, reply_digest

USER = {"role": "user", "content": "Count."}


def read(recorded: Exchange, versions_read: tuple[str, ...] = ()) -> ExchangeTurns:
    return turns_of(recorded, "a.tslog", 64, Texts(), versions_read)


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


def test_a_stream_is_a_turn_for_each_choice() -> None:
    found = read(streamed(1, stream_events([1, 2], [7, 8], [9])))
    assert [(turn.choice, ids(turn)) for turn in found.turns] == [(0, ([1, 2], [7, 8])), (1, ([1, 2], [9]))]
    assert [turn.logprobs.tolist() for turn in found.turns] == [[-0.125, -0.25], [-0.125]]
    assert [(turn.finish_reason, turn.weight_spans, turn.flags) for turn in found.turns] == [
        ("stop", (), ())
    ] * 2
    assert found.findings == ()


def test_an_answer_is_known_again_however_it_was_sent() -> None:
    """The turn of a stream and that of a whole reply can be told to be what a harness sent back."""
    reply = {"role": "assistant", "content": "<7><8>"}
    (turn,) = read(streamed(1, stream_events([1, 2], [7, 8]))).turns
    assert turn.wording is not None
    assert turn.wording.reply == reply_digest(reply)


def test_a_stream_with_fewer_logprobs_than_ids_is_left_out() -> None:
    events = stream_events([1, 2], [7, 8])
    del events[2]
    found = read(streamed(1, events))
    assert (found.turns, said(found.findings)) == ((), [("logprob_count_mismatch", "error", 0)])


def test_a_stream_with_another_count_of_ids_is_left_out() -> None:
    events = stream_events([1, 2], [7, 8])
    events[-2] = stream_events([1, 2, 3], [7, 8, 9])[-2]
    found = read(streamed(1, events))
    assert (found.turns, said(found.findings)) == ((), [("token_count_mismatch", "error", 0)] * 2)


def test_a_stream_without_ids_is_left_out() -> None:
    events = stream_events([1, 2], [7])
    del events[-3]
    found = read(streamed(1, events))
    assert (found.turns, said(found.findings)) == ((), [("missing_token_ids", "error", 0)] * 2)


def test_a_stream_broken_off_by_the_backend_is_kept_with_a_flag() -> None:
    found = read(streamed(1, stream_events([1, 2], [7, 8], finish_reason="abort")))
    assert [(ids(turn), turn.flags) for turn in found.turns] == [(([1, 2], [7, 8]), ("aborted",))]
    assert said(found.findings) == [("aborted", "warning", 0)]


def test_a_stream_aborted_after_some_tokens_whose_ids_never_came_is_not_called_empty() -> None:
    events = stream_events([1, 2], [7], finish_reason="abort")
    found = read(streamed(1, [*events[:-3], events[-1]]))
    assert (found.turns, said(found.findings)) == ((), [("missing_token_ids", "error", 0)] * 2)


def test_a_stream_aborted_before_the_first_token_is_no_turn() -> None:
    found = read(streamed(1, stream_events([1, 2], [], finish_reason="abort")))
    assert (found.turns, said(found.findings)) == ((), [("aborted", "warning", 0)])


@pytest.mark.parametrize(
    ("outcome", "cut_off", "behind_its_ids", "whole"),
    [
        ("complete", ["truncated_stream"], ["truncated_stream"], []),
        ("backend_failed", ["upstream_error"], ["truncated_stream"], []),
        ("client_left", ["undelivered"], ["undelivered"], ["undelivered"]),
        ("interrupted", ["aborted"], ["undelivered"], ["undelivered"]),
    ],
)
def test_a_stream_cut_anywhere_is_kept_whole_or_left_out(
    outcome: str, cut_off: list[str], behind_its_ids: list[str], whole: list[str]
) -> None:
    events = stream_events([1, 2], [7, 8])
    reply, ids_end = b"".join(events), len(b"".join(events[:-2]))
    for end in range(len(reply) + 1):
        found = read(streamed(1, [reply[:end]], outcome=outcome))
        kept = [(*ids(turn), turn.logprobs.tolist()) for turn in found.turns]
        if end < ids_end:
            assert (kept, said(found.findings)) == ([], [(kind, "error", None) for kind in cut_off])
        else:
            kinds = whole if end == len(reply) else behind_its_ids
            assert kept == [([1, 2], [7, 8], [-0.125, -0.25])]
            assert said(found.findings) == [(kind, "warning", None) for kind in kinds]


def test_a_stream_whose_harness_left_behind_its_ids_is_kept_with_a_flag() -> None:
    found = read(streamed(1, stream_events([1, 2], [7])[:-1], outcome="client_left"))
    assert [(ids(turn), turn.flags) for turn in found.turns] == [(([1, 2], [7]), ("undelivered",))]
    assert said(found.findings) == [("undelivered", "warning", None)]


VERSIONLESS = {"meta_info": {"weight_version": None, "weight_versions": None}}


def test_an_answer_without_a_version_has_what_was_read_around_it() -> None:
    recorded = replied(1, completion(answered_choice(0, [1], [7], **VERSIONLESS), metadata={}))
    found = read(recorded, ("7",))
    assert [(turn.weight_spans, turn.version_read) for turn in found.turns] == [((), "7")]
    assert found.findings == ()


def test_an_answer_that_tells_its_version_needs_no_reading() -> None:
    for versions_read in ("step-2",), ("step-1", "step-2"):
        found = read(answered(1, [1], [7]), versions_read)
        assert [(turn.weight_spans, turn.version_read) for turn in found.turns] == [(((0, "step-1"),), None)]
        assert found.findings == ()


def test_a_version_that_moved_around_an_answer_is_unknown_and_said() -> None:
    recorded = replied(1, completion(answered_choice(0, [1], [7], **VERSIONLESS), metadata={}))
    found = read(recorded, ("7", "8"))
    assert [(turn.weight_spans, turn.version_read) for turn in found.turns] == [((), None)]
    assert said(found.findings) == [("weight_version_moved", "warning", None)]
    assert found.findings[0].message == (
        "around the answer the backend's weight version went from '7' to '8', and the answer does not tell "
        "which of its tokens are of which; it is unknown"
    )


def test_a_single_version_does_not_tell_when_the_weights_moved() -> None:
    versionless = answered_choice(0, [1], [7], **VERSIONLESS)
    found = read(replied(1, completion(versionless, metadata={"weight_version": "8"})), ("7", "8"))
    assert [(turn.weight_spans, turn.version_read) for turn in found.turns] == [((), None)]
    assert said(found.findings) == [("weight_version_moved", "warning", None)]


VIDEO = {
    "role": "user",
    "content": [{"type": "video_url", "video_url": {"url": "data:,QQ=="}}],
}


def test_what_is_more_than_text_and_images_is_compiled_as_text_and_said() -> None:
    found = read(answered(1, [1], [7], request={"messages": [USER, VIDEO]}))
    assert [ids(turn) for turn in found.turns] == [([1], [7])]
    assert said(found.findings) == [("not_compiled", "warning", None)]
    assert [(turn.flags, len(turn.other_media)) for turn in found.turns] == [(("media_left_out",), 1)]
    assert found.findings[0].message == (
        "holds video, sound or another part that is neither text nor image, which this version does not "
        "compile; its tokens are compiled as text, flagged media_left_out"
    )


def test_without_a_reply_there_are_no_turns() -> None:
    found = read(exchange(1, status=500, reply=b"oops"))
    assert (found.turns, found.answers, said(found.findings)) == ((), (), [("upstream_error", "error", None)])


def test_whatever_an_exchange_holds_it_raises_nothing() -> None:
    deep = b'{"messages":' + b"[" * 600 + b"]" * 600 + b"}"
    for recorded in (
        answered(1, [1], [7], choice_fields={"message": {"tool_calls": True}}),
        answered(1, [1], [7], choice_fields={"message": {"tool_calls": 7, "content": {"a": 1}}}),
        answered(1, [1], [7], request={"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]}),
        exchange(1, request=deep, reply=compact(completion(answered_choice(0, [1], [7])))),
    ):
        assert [ids(turn) for turn in read(recorded).turns] == [([1], [7])]


def test_an_exchange_that_brings_about_an_error_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError("secret")

    monkeypatch.setattr(turns_module, "choices_of", fail)
    found = read(answered(1, [1], [7]))
    assert (found.turns, said(found.findings)) == ((), [("undecodable", "error", None)])
    assert found.findings[0].message == (
        "reading it failed with a RecursionError, which no exchange should bring about"
    )


def test_choices_with_different_prompts_are_left_out_together() -> None:
    found = read(replied(1, completion(answered_choice(0, [1, 2], [7]), answered_choice(1, [1, 3], [8]))))
    assert (found.turns, said(found.findings)) == ((), [("token_source_conflict", "error", None)])


def test_choices_that_the_usage_does_not_add_up_to_are_left_out_together() -> None:
    choices = answered_choice(0, [1], [7]), answered_choice(1, [1], [8, 9])
    for counted, turns in ((3, 2), (4, 0)):
        usage = {"prompt_tokens": 1, "completion_tokens": counted}
        found = read(replied(1, completion(*choices, usage=usage)))
        assert len(found.turns) == turns
    assert said(found.findings) == [("token_count_mismatch", "error", None)]


@pytest.mark.parametrize(("told", "believed"), [(-1, None), (0, 0), (2, 2), (3, None)])
def test_a_number_of_cached_tokens_that_cannot_be_is_not_believed(told: int, believed: int | None) -> None:
    (turn,) = read(answered(1, [1, 2], [7], choice_fields={"meta_info": {"cached_tokens": told}})).turns
    assert turn.cached_tokens == believed


@pytest.mark.parametrize("spans", [["7", "7"], [None], {"0": "7"}, "7"])
def test_spans_that_cannot_be_read_leave_the_version_unknown(spans: Any) -> None:
    found = read(answered(1, [1], [7], choice_fields={"meta_info": {"weight_versions": spans}}))
    assert found.turns[0].weight_spans == ()
    assert said(found.findings) == [("weight_versions_invalid", "warning", 0)]


def test_an_abort_that_is_called_a_stop_is_flagged() -> None:
    engine = {"meta_info": {"finish_reason": {"type": "abort", "message": "Aborted"}}}
    found = read(answered(1, [1], [7], choice_fields=engine))
    assert [(turn.finish_reason, turn.flags) for turn in found.turns] == [("abort", ("aborted",))]
    assert said(found.findings) == [("aborted", "warning", 0)]


RED = picture("red")


def read_with_images(recorded: Exchange) -> ExchangeTurns:
    with image_placer(ModelFolders()) as placer:
        return turns_of(recorded, "a.tslog", 64, Texts(), (), Readers(RoutingReader(), placer))


def test_a_turn_has_the_images_of_its_prompt_with_their_tokens() -> None:
    facts = {"kind": "sglang", "model_config": {"image_token_id": 9}}
    recorded = answered(1, [1, 9, 9, 2], [9], request={"messages": [shown(RED), USER]}, backend=facts)
    found = read_with_images(recorded)
    assert (said(found.findings), [image.sha256 for image in found.turns[0].images]) == ([], [sha256(RED)])
    assert found.turns[0].images[0].token_span == (1, 2)
    assert found.images == (Image(sha256(RED), "image/png", RED),)


def test_a_turn_whose_images_are_not_known_is_left_out() -> None:
    facts = {"kind": "sglang", "model_config": {"image_token_id": 9}}
    recorded = answered(1, [1, 2], [7], request={"messages": [shown(RED)]}, backend=facts)
    found = read_with_images(recorded)
    assert (found.turns, said(found.findings)) == ((), [("placeholder_mismatch", "error", 0)])


def test_without_a_placer_turns_have_no_images_and_the_request_tells_its_own() -> None:
    found = read(answered(1, [1, 2], [7], request={"messages": [shown(RED)]}))
    assert (found.turns[0].images, len(found.images), found.findings) == ((), 1, ())
