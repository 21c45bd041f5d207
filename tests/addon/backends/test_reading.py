import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import chat_request, choice, compact, completion, tool_call_choice
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.reading import ChoiceReading, PromptText, read_chat, sampling_parameters


def reading_of(*choices: dict[str, Any], **fields: Any) -> ChoiceReading:
    return read_chat(compact(completion(*choices, **fields)))[0]


def test_a_reply_is_read_whole() -> None:
    assert read_chat(compact(completion())) == [
        ChoiceReading(
            choice=0,
            prompt_ids={"prompt_token_ids": PromptText(b"[151644,872]")},
            sampled_ids={"meta_info.output_token_logprobs": [19, 151645]},
            logprobs={"meta_info.output_token_logprobs": [-0.5, -0.25], "logprobs.content": [-0.5, -0.25]},
            prompt_token_counts={"meta_info.prompt_tokens": 2, "usage.prompt_tokens": 2},
            completion_token_counts={
                "meta_info.completion_tokens": 2,
                "meta_info.output_token_logprobs_length": 2,
                "usage.completion_tokens": 2,
            },
            completion_token_sums={},
            finish_reason="stop",
            weight_versions={"meta_info.weight_version": "step-1", "metadata.weight_version": "step-1"},
            weight_spans={"meta_info.weight_versions": [{"version": "step-1", "start": 0, "end": 2}]},
            cached_tokens=1,
            num_retractions=0,
            message={"role": "assistant", "content": "4", "reasoning_content": None},
        )
    ]


def test_a_bare_reply_leaves_unknown_what_it_does_not_tell() -> None:
    assert read_chat(b'{"choices":[{}]}') == [
        ChoiceReading(
            choice=0,
            prompt_ids={},
            sampled_ids={},
            logprobs={},
            prompt_token_counts={},
            completion_token_counts={},
            completion_token_sums={},
            finish_reason=None,
            weight_versions={},
            weight_spans={},
            cached_tokens=None,
            num_retractions=None,
            message=None,
        )
    ]


def test_choices_come_in_their_order_with_their_own_numbers() -> None:
    readings = read_chat(compact(completion(choice(1, prompt_ids=(7,)), choice(0))))
    assert [reading.choice for reading in readings] == [1, 0]
    assert readings[0].prompt_ids == {"prompt_token_ids": PromptText(b"[7]")}
    assert readings[0].completion_token_counts == {
        "meta_info.completion_tokens": 2,
        "meta_info.output_token_logprobs_length": 2,
    }


@pytest.mark.parametrize("ids", ["[]", "[151644,872]", "[151644, 872, 0]", "[1.0]", "[-1, true]", "[1 2]"])
def test_arrays_of_prompt_ids_stay_text(ids: str) -> None:
    raw = f'{{"choices":[{{"prompt_token_ids":{ids}}}],"sglext":{{"input_ids" : [5]}}}}'.encode()
    found = read_chat(raw)[0].prompt_ids
    assert found == {"prompt_token_ids": PromptText(ids.encode()), "sglext.input_ids": PromptText(b"[5]")}


@pytest.mark.parametrize("ids", ['["1", 2]', "[[1], 2]", '["]", 1]', '[{"a": 1}]', "5", '"1,2"', "{}"])
def test_other_prompt_ids_are_given_as_they_were_found(ids: str) -> None:
    raw = f'{{"choices":[{{"prompt_token_ids": {ids}}}]}}'.encode()
    found = read_chat(raw)[0].prompt_ids["prompt_token_ids"]
    assert (found, type(found)) == (json.loads(ids), type(json.loads(ids)))


def test_every_source_of_the_sampled_ids_is_given() -> None:
    reply = completion(choice(response_token_ids=[1], token_ids=[2]), sglext={"output_ids": [[3]]})
    assert read_chat(compact(reply))[0].sampled_ids == {
        "meta_info.output_token_logprobs": [19, 151645],
        "response_token_ids": [1],
        "token_ids": [2],
        "sglext.output_ids": [3],
    }


@pytest.mark.parametrize(
    ("rows", "ids", "logprobs"),
    [
        ([[None, 19, "4"]], [19], [None]),
        ([[-0.5, 19.0, "4"], [-0.5, "20", None]], [19.0, "20"], [-0.5, -0.5]),
        ([[-0.5], 7, None, [-0.5, 19, "4"]], [[-0.5], 7, None, 19], [-0.5, 7, None, -0.5]),
        ([{"logprob": -0.5}], [{"logprob": -0.5}], [{"logprob": -0.5}]),
        ([], [], []),
        (5, [5], [5]),
    ],
)
def test_rows_are_taken_apart_as_they_were_found(rows: Any, ids: list[Any], logprobs: list[Any]) -> None:
    reading = reading_of(choice(meta_info={"output_token_logprobs": rows}))
    assert reading.sampled_ids["meta_info.output_token_logprobs"] == ids
    assert reading.logprobs["meta_info.output_token_logprobs"] == logprobs


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"logprob": None}, {"token": "a"}, "b"], [None, {"token": "a"}, "b"]),
        ({"a": 1}, [{"a": 1}]),
    ],
)
def test_rows_of_openais_form_are_taken_apart_as_they_were_found(content: Any, expected: list[Any]) -> None:
    reading = reading_of(choice(logprobs={"content": content}))
    assert reading.logprobs["logprobs.content"] == expected


def test_a_logprob_that_is_no_number_is_still_a_logprob_of_its_token() -> None:
    raw = compact(completion()).replace(b"-0.5", b"NaN").replace(b"-0.25", b"-Infinity")
    [reading] = read_chat(raw)
    for logprobs in reading.logprobs.values():
        assert math.isnan(logprobs[0])
        assert logprobs[1] == -math.inf
    assert reading.prompt_ids == {"prompt_token_ids": PromptText(b"[151644,872]")}


def test_logprobs_of_both_forms_are_given_also_where_they_contradict_each_other() -> None:
    raw = compact(completion()).replace(b'"logprob":-0.25', b'"logprob":-0.75')
    assert read_chat(raw)[0].logprobs == {
        "meta_info.output_token_logprobs": [-0.5, -0.25],
        "logprobs.content": [-0.5, -0.75],
    }


def test_logprobs_of_openais_form_alone_are_enough() -> None:
    alone = choice()
    del alone["meta_info"]
    assert reading_of(alone).logprobs == {"logprobs.content": [-0.5, -0.25]}


def test_a_lone_surrogate_is_no_obstacle() -> None:
    raw = compact(completion()).replace(b'"content":"4"', b'"content":"\\ud800"')
    message = read_chat(raw)[0].message
    assert message is not None
    assert message["content"] == "\ud800"


def test_a_finish_that_is_no_unicode_is_unknown() -> None:
    reply = compact(completion(choice(finish_reason="odd"))).replace(b'"odd"', rb'"\ud800"')
    assert read_chat(reply)[0].finish_reason is None
    assert reading_of(choice(finish_reason="arrêt")).finish_reason == "arrêt"


def test_the_finish_is_the_choices_own_else_the_engines() -> None:
    assert reading_of(tool_call_choice()).finish_reason == "tool_calls"
    aborted = choice(meta_info={"finish_reason": {"type": "abort", "message": "Aborted"}}) | {
        "finish_reason": None
    }
    assert reading_of(aborted).finish_reason == "abort"


def test_an_abort_counts_whoever_calls_it_otherwise() -> None:
    assert reading_of(choice(meta_info={"finish_reason": {"type": "abort"}})).finish_reason == "abort"
    assert (
        reading_of(choice(meta_info={"finish_reason": {"type": "stop"}}, finish_reason="abort")).finish_reason
        == "abort"
    )


def test_the_replys_weight_version_is_that_of_the_first_choice_only() -> None:
    metadata = {"weight_version": "step-2", "weight_versions": [{"version": "step-2", "start": 0, "end": 1}]}
    bare = [{"index": 0}, {"index": 1}]
    first, second = read_chat(compact({"choices": bare, "metadata": metadata}))
    assert (first.weight_versions, first.weight_spans) == (
        {"metadata.weight_version": "step-2"},
        {"metadata.weight_versions": metadata["weight_versions"]},
    )
    assert (second.weight_versions, second.weight_spans) == ({}, {})


@pytest.mark.parametrize("spans", [[], ["step-1"], [None], "step-1", {"step-1": 2}])
def test_weight_spans_are_given_as_they_were_found(spans: Any) -> None:
    found = reading_of(choice(meta_info={"weight_versions": spans})).weight_spans
    assert found == {"meta_info.weight_versions": spans}


def test_the_usage_counts_what_several_choices_sampled_together() -> None:
    found = read_chat(compact(completion(choice(0), choice(1))))
    assert [reading.completion_token_sums for reading in found] == [{"usage.completion_tokens": 4}] * 2


def test_cached_tokens_of_the_usage_count_only_where_it_reports_some() -> None:
    bare: list[dict[str, Any]] = [{"index": 0}]
    for reported, expected in ((0, None), (9, 9), (None, None)):
        usage = {"prompt_tokens_details": {"cached_tokens": reported}}
        assert read_chat(compact({"choices": bare, "usage": usage}))[0].cached_tokens == expected
    usage = {"prompt_tokens_details": {"cached_tokens": 9}}
    assert reading_of(choice(meta_info={"cached_tokens": 0}), usage=usage).cached_tokens == 0


def test_retractions_are_read_under_their_older_name_too() -> None:
    assert reading_of(choice(meta_info={"num_retractions": 2})).num_retractions == 2
    older = choice(meta_info={"total_retractions": 3})
    del older["meta_info"]["num_retractions"]
    assert reading_of(older).num_retractions == 3


def test_routing_is_handed_on_untouched() -> None:
    of_choice = reading_of(choice(meta_info={"routed_experts": "AA==", "routed_experts_dtype": "uint8"}))
    assert of_choice.routed_experts == {"meta_info.routed_experts": "AA=="}
    assert of_choice.routed_experts_dtype == "uint8"
    of_reply = reading_of(sglext={"routed_experts": "AQ=="})
    assert (of_reply.routed_experts, of_reply.routed_experts_dtype) == (
        {"sglext.routed_experts": "AQ=="},
        None,
    )


def test_the_caches_that_a_prompt_came_from_are_read_where_they_are_told() -> None:
    details = {"device": 3, "host": 2}
    assert reading_of(choice(meta_info={"cached_tokens_details": details})).cached_tokens_details == details
    assert reading_of(sglext={"cached_tokens_details": details}).cached_tokens_details == details
    assert reading_of(choice(meta_info={"cached_tokens_details": None})).cached_tokens_details == {}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no JSON"),
        (b'{"choices":[{"prompt_token_ids":[1,,2]', "no JSON"),
        (compact(completion()).replace(b'"logprob":-0.5', b'"logprob":-'), "no JSON"),
        (b"data: {}\n\n", "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "no JSON"),
        (b"[1]", "a JSON list, not an object"),
        (b"{}", "no list of choices; its fields: none"),
        (b'{"error":{},"x":1}', "no list of choices; its fields: error, x"),
        (b'{"choices":[]}', "no list of choices"),
        (b'{"choices":[1]}', "no list of choices"),
        (b'{"choices":[{"index":0},{"index":0}]}', r"several choices of one index: \[0, 0\]"),
    ],
)
def test_what_is_no_completion_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(UndecodableReply, match=reason):
        read_chat(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
FIELDS = (
    *("index", "message", "logprobs", "finish_reason", "prompt_token_ids", "response_token_ids"),
    *("token_ids", "meta_info", "sgl_ext", "routed_experts", "weight_versions"),
)
META_FIELDS = ("output_token_logprobs", "finish_reason", "weight_versions", "cached_tokens", "routed_experts")


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON), max_size=3),
    st.dictionaries(st.sampled_from(META_FIELDS), JSON),
    st.dictionaries(st.sampled_from(("sglext", "usage", "metadata", "prompt_token_ids")), JSON),
)
def test_no_reply_makes_the_reading_fail_in_another_way(
    choices: list[Any], meta_info: dict[str, Any], fields: dict[str, Any]
) -> None:
    for each in choices:
        each.setdefault("meta_info", meta_info)
    try:
        readings = read_chat(json.dumps({"choices": choices, **fields}).encode())
    except UndecodableReply:
        return
    assert len(readings) == len(choices)


def test_sampling_parameters_are_those_that_were_sent() -> None:
    sent = {"temperature": 0.7, "top_p": 1, "n": 2, "max_tokens": None, "stop": ["\n"], "seed": 2**70}
    request = json.loads(chat_request(**sent, stream=True, tools=[], logprobs=True))
    assert sampling_parameters(request) == sent
    assert sampling_parameters({}) == {}
