import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import compact
from tests.support.chat_streams import (
    END,
    FOUR,
    HEAD,
    begun,
    chunk,
    chunks,
    event,
    finished,
    sglext,
    stream,
    token,
    usage,
)
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.reading import ChoiceReading, PromptText
from turnstile.addon.backends.stream_reading import StreamReading, read_chat_stream

READING = ChoiceReading(
    choice=0,
    prompt_ids={"sglext.input_ids": PromptText(b"[151644,872]")},
    sampled_ids={"sglext.output_ids": [19, 151645]},
    logprobs={"logprobs.content": [-0.5, -0.25]},
    prompt_token_counts={"usage.prompt_tokens": 2},
    completion_token_counts={"usage.completion_tokens": 2},
    completion_token_sums={},
    finish_reason="stop",
    weight_versions={},
    weight_spans={},
    cached_tokens=None,
    num_retractions=None,
    message={"role": "assistant", "content": "4"},
)


def read(*values: dict[str, Any] | bytes) -> StreamReading:
    return read_chat_stream(stream(*values))


def test_a_stream_is_read_whole() -> None:
    assert read(*chunks()) == StreamReading((READING,), done_seen=True, error=None)
    (choice,) = read(*chunks()).choices
    assert type(choice.prompt_ids["sglext.input_ids"]) is PromptText


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_whatever_stands_between_the_chunks_is_passed_over(line_end: bytes) -> None:
    noise = b":\n\nretry: 1\n\nevent: ping\ndata: \n\nevent: ping\ndata: {not json\n\nid: 7\n"
    body = b"\xef\xbb\xbf" + noise + stream(*chunks()).replace(b"data: ", b"data:") + b"data: {not json\n\n"
    assert read_chat_stream(body.replace(b"\n", line_end)) == read(*chunks())


def test_ids_in_an_event_of_their_own_are_read() -> None:
    framed = [event(sglext(input_ids=[151644, 872], output_ids=[[19, 151645]]), name=b"sglext_ids")]
    assert read(*chunks()[:4], *framed, usage()) == read(*chunks())


def test_choices_are_told_apart_and_come_by_index() -> None:
    reading = read(
        *(begun(1), begun(), token(1, (-0.5, 7, "7")), token(0, FOUR), token(1, (-1, 8, "8")), chunk(0, END)),
        *(finished(1, "length"), finished(), sglext(input_ids=[1], output_ids=[[19, 151645], [7, 8]])),
        usage(1, 4),
    )
    first, second = reading.choices
    assert (first.choice, first.finish_reason, first.logprobs) == (
        0,
        "stop",
        {"logprobs.content": [-0.5, -0.25]},
    )
    assert (second.choice, second.finish_reason, second.logprobs) == (
        1,
        "length",
        {"logprobs.content": [-0.5, -1]},
    )
    assert [choice.sampled_ids["sglext.output_ids"] for choice in reading.choices] == [[19, 151645], [7, 8]]
    assert {choice.prompt_ids["sglext.input_ids"] for choice in reading.choices} == {PromptText(b"[1]")}
    # of several choices the usage is their sum
    assert [choice.completion_token_counts for choice in reading.choices] == [{}, {}]
    assert second.message == {"role": "assistant", "content": "78"}


def test_a_stream_that_broke_off_tells_how_far_it_came() -> None:
    cut = stream(begun(), token(0, FOUR), done=False) + event(finished())[:-1]
    (choice,) = read_chat_stream(cut).choices
    assert (choice.finish_reason, choice.sampled_ids, choice.logprobs) == (
        None,
        {},
        {"logprobs.content": [-0.5]},
    )
    assert not read_chat_stream(cut).done_seen


@pytest.mark.parametrize("body", [b"", b": hi", b"data: {", b": hi\n\n"])
def test_without_a_chunk_there_are_no_choices(body: bytes) -> None:
    assert read_chat_stream(body) == StreamReading((), done_seen=False)


def test_without_done_the_rest_counts_all_the_same() -> None:
    body = stream(*chunks(), done=False) + b"data: [D"
    assert read_chat_stream(body) == StreamReading((READING,), done_seen=False)


def test_an_abort_that_repeats_the_text_repeats_no_ids_and_no_logprobs() -> None:
    (choice,) = read(
        *chunks()[:3], chunk(said={"content": "4"}), finished(reason="abort"), *chunks()[4:]
    ).choices
    assert choice.sampled_ids == READING.sampled_ids
    assert choice.logprobs == READING.logprobs
    assert (choice.finish_reason, choice.message) == ("abort", None)


def test_usage_beside_a_choice_is_not_that_of_the_whole() -> None:
    running = {"prompt_tokens": 2, "completion_tokens": 1}
    (choice,) = read(begun() | {"usage": running}, finished() | {"usage": running}).choices
    assert choice.completion_token_counts == {}
    (choice,) = read(begun(), HEAD | {"usage": running}).choices
    assert choice.completion_token_counts == {"usage.completion_tokens": 1}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (event(b'{"error":{"object":"error","message":"queue is full","code":503}}'), "queue is full"),
        (event(b'{"error":"queue is full"}'), "queue is full"),
        (event(b'{"message":"queue is full"}', name=b"error"), "queue is full"),
        (event(b'{"error":{"code":503}}'), "an error without a message"),
    ],
)
def test_an_error_event_is_told(broken: bytes, message: str) -> None:
    reading = read(begun(), broken, event(b'{"error":{"message":"another"}}'), usage(2, 0))
    assert (reading.error, reading.done_seen, len(reading.choices)) == (message, True, 1)


def test_routed_experts_belong_to_the_choice_that_came_first() -> None:
    ids = sglext(input_ids=[1], output_ids=[[19], [19]], routed_experts="AA==")
    second_first = read(begun(1), begun(), finished(), finished(1), ids)
    assert [choice.routed_experts for choice in second_first.choices] == [
        {},
        {"sgl_ext.routed_experts": "AA=="},
    ]
    # an aborted one may never have had any, and then they are another one's
    aborted = read(begun(1), begun(), finished(), finished(1, "abort"), ids)
    assert [choice.routed_experts for choice in aborted.choices] == [{}, {}]


@pytest.mark.parametrize(
    "data",
    [b"5", b"[]", b"null", b"{", b'{"a":1}x', b'{"sglext":{"input_ids":[1}}', b"[" * 100_000],
)
def test_a_finished_event_that_is_no_object_is_refused_with_its_number(data: bytes) -> None:
    with pytest.raises(UndecodableReply, match=r"^event 1 of the stream is no JSON object"):
        read(begun(), event(data), *chunks())


def test_prompt_ids_that_are_no_json_are_for_others_to_judge() -> None:
    values = b'{"choices":[],"sglext":{"input_ids":[x],"output_ids":[[1]]}}'
    (choice,) = read(begun(), event(values)).choices
    assert choice.prompt_ids == {"sglext.input_ids": PromptText(b"[x]")}


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (sglext(output_ids=[[1]]), sglext(output_ids=[[2]]), "output_ids"),
        (sglext(input_ids=[1]), sglext(input_ids=[2]), "the prompt ids"),
    ],
)
def test_ids_that_contradict_each_other_are_refused(
    one: dict[str, Any], other: dict[str, Any], what: str
) -> None:
    assert read(begun(), one, one).choices == read(begun(), one).choices
    with pytest.raises(UndecodableReply, match=f"tells {what} twice"):
        read(begun(), one, other)


def test_odd_values_are_given_as_they_were_found() -> None:
    values = b'{"choices":[],"sglext":{"input_ids":["1", -2],"output_ids":[[1.0,"2",null]]}}'
    odd_rows = [event(b'{"choices":[{"delta":5,"logprobs":{"content":[{"logprob":NaN},7]}},null,5]}')]
    (choice,) = read(*odd_rows, chunk(0, (None, 1, "x")), finished(), event(values)).choices
    assert choice.prompt_ids == {"sglext.input_ids": ["1", -2]}
    assert choice.sampled_ids == {"sglext.output_ids": [1.0, "2", None]}
    not_a_number, seven, unknown = choice.logprobs["logprobs.content"]
    assert (not_a_number != not_a_number, seven, unknown) == (True, 7, None)


def test_a_choice_of_which_only_ids_came_is_told() -> None:
    (first, second) = read(begun(), sglext(input_ids=[1], output_ids=[[2], [3]])).choices
    assert (second.choice, second.sampled_ids, second.finish_reason) == (1, {"sglext.output_ids": [3]}, None)
    assert first.sampled_ids == {"sglext.output_ids": [2]}


def test_a_model_that_writes_what_looks_like_a_placeholder_is_read_right() -> None:
    said = chunk(0, said={"content": "\0cut0"})
    (choice,) = read(said, event(compact(sglext(input_ids=[1], output_ids=[[2]])))).choices
    assert choice.message == {"role": "assistant", "content": "\0cut0"}
    assert choice.prompt_ids == {"sglext.input_ids": PromptText(b"[1]")}


NAMES = (
    "choices",
    "index",
    "delta",
    "logprobs",
    "content",
    "logprob",
    "finish_reason",
    "tool_calls",
    "function",
)
MORE_NAMES = ("arguments", "usage", "sglext", "input_ids", "output_ids", "routed_experts", "error", "message")
ANYTHING = st.recursive(
    st.none() | st.integers(-1, 2) | st.sampled_from(["\0cut0", "abort", 0.5]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES + MORE_NAMES), inner, max_size=4)
        | st.fixed_dictionaries(
            {"choices": st.lists(st.fixed_dictionaries({"delta": inner, "logprobs": inner}))}
        )
        | st.fixed_dictionaries({"choices": inner, "sglext": inner, "usage": inner})
    ),
    max_leaves=12,
)


@given(st.lists(ANYTHING, max_size=3), st.integers(0, 40))
def test_no_stream_makes_the_reading_fail_in_another_way(values: list[Any], cut: int) -> None:
    body = stream(*(event(json.dumps(value).encode()) for value in values))
    try:
        reading = read_chat_stream(body[: len(body) - cut])
    except UndecodableReply:
        return
    assert [choice.choice for choice in reading.choices] == sorted({each.choice for each in reading.choices})
