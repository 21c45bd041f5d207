from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.chat import chat_request, compact
from tests.support.chat_streams import (
    DONE,
    END,
    FOUR,
    HEAD,
    begun,
    chunk,
    chunks,
    chunks_without_turnstile,
    event,
    finished,
    sglext,
    stream,
    token,
    usage,
)
from turnstile.addon.backends.asking import Asking, ask_chat_live
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.live import LiveRestorer

SGLANG = BackendFacts(kind="sglang", version=(0, 5, 23))
LOGPROBS, ROUTED = "logprobs", "routed_experts"


def asking(moe: bool = False, **fields: Any) -> Asking:
    return ask_chat_live(chat_request(stream=True, **fields), SGLANG, moe="full" if moe else "off")


def handed_on(asked: Asking, pieces: Iterable[bytes]) -> tuple[bytes, LiveRestorer]:
    """What the harness gets of a stream that comes in these pieces."""
    restorer = LiveRestorer(asked)
    body = b"".join([*(restorer.feed(piece) for piece in pieces), restorer.end()])
    return body, restorer


def restored(asked: Asking, *values: dict[str, Any] | bytes, done: bool = True) -> bytes:
    body, restorer = handed_on(asked, [stream(*values, done=done)])
    assert restorer.fault is None
    return body


def missing(asked: Asking, *values: dict[str, Any] | bytes) -> tuple[str, ...]:
    return handed_on(asked, [stream(*values)])[1].missing


def test_what_was_added_is_taken_off() -> None:
    assert restored(asking(), *chunks()) == stream(*chunks_without_turnstile())


def test_a_harness_that_asked_for_everything_gets_the_backends_bytes() -> None:
    own = asking(
        moe=True,
        logprobs=True,
        stream_options={"include_usage": True},
        return_input_ids_in_sglext=True,
        return_output_ids_in_sglext=True,
        return_routed_experts=True,
    )
    body = b"\xef\xbb\xbf: hi\r\n\r\n" + stream(*chunks()) + b": bye\r\rdata: more\n\ndata: [D"
    assert handed_on(own, [body])[0] == body


def test_logprobs_that_the_harness_wants_keep_their_bytes() -> None:
    odd = event(b'{ "choices":[{"index":0, "delta":{}, "logprobs":{"content":[{"logprob":-0.50e0}]}}] }')
    assert restored(asking(logprobs=True), odd) == stream(odd)


ROW = '{"token":"4","bytes":[52],"logprob":-0.5,"top_logprobs":[]}'
TOP = '{"token":"4","bytes":[52],"logprob":-0.5,"top_logprobs":[{"token":"5","bytes":[53],"logprob":-1}]}'


@pytest.mark.parametrize(
    "choices",
    [
        '[{"index":0,"delta":{"content":"4"},"logprobs":%s,"finish_reason":null,"matched_stop":null}]',
        '[{"index":0,"delta":{"content":"4"},"logprobs":%s,"finish_reason":"stop","matched_stop":1}]',
        '[ {"index": 0, "logprobs" : %s, "delta": {"content":"\\ud800\\""}, "finish_reason":null} ]',
        '[{"logprobs":%s,"delta":{}},{"logprobs":%s,"finish_reason":null,"matched_stop":null}]',
        '[{"logprobs":%s},null,5,{"logprobs":null},{"logprobs":null,"finish_reason":null,"matched_stop":null}]',
        '[{"delta":{"content":"\\"logprobs\\":{"},"logprobs":%s,"finish_reason":null,"matched_stop":null}]',
    ],
)
@pytest.mark.parametrize(
    "logprobs",
    [
        f'{{"content":[{ROW}]}}',
        f'{{"content":[{ROW},{ROW}]}}',
        f'{{"content":[{TOP}]}}',
        f'{{"content": [ {ROW} ], "refusal":null}}',
        '{"content":[]}',
    ],
)
@pytest.mark.parametrize("usage", ["", ',"usage":{"completion_tokens":1}'])
def test_logprobs_become_null_in_whatever_layout_they_come(choices: str, logprobs: str, usage: str) -> None:
    def body(value: str) -> bytes:
        return event(f'{{"choices":{choices.replace("%s", value)}{usage}}}'.encode())

    assert restored(asking(), body(logprobs)) == stream(body("null"))


def test_a_text_that_looks_like_something_added_stays() -> None:
    texts = ['"logprobs":{"content":[{', '"sglext"', '"top_logprobs":[]}]},"finish_reason":null', "[DONE]"]
    said = [token(0, (-0.5, 1, text)) for text in texts]
    blank = [chunk(said={"content": text}) for text in texts]
    assert restored(asking(), *said) == stream(*blank)
    assert restored(asking(logprobs=True), *said) == stream(*said)


def test_ids_that_come_in_events_of_their_own_are_taken_off() -> None:
    ids = event(sglext(input_ids=[1], output_ids=[[2]]), name=b"sglext_ids")
    assert restored(asking(), begun(), ids) == stream(begun())


def test_of_sglext_only_what_was_added_goes() -> None:
    own = asking(return_cached_tokens_details=True, return_output_ids_in_sglext=True)
    told = sglext(cached_tokens_details={"device": 1}, input_ids=[1], output_ids=[[2]])
    left = sglext(cached_tokens_details={"device": 1}, output_ids=[[2]])
    assert restored(own, told) == stream(left)
    framed = event(sglext(input_ids=[1], output_ids=[[2]]), name=b"sglext_ids")
    assert restored(own, framed) == stream(event(sglext(output_ids=[[2]]), name=b"sglext_ids"))


def test_routed_experts_that_were_added_go() -> None:
    told = sglext(routed_experts="AA==", routed_experts_dtype="int32", input_ids=[1], output_ids=[[2]])
    assert restored(asking(moe=True), told) == stream()
    own = asking(moe=True, return_routed_experts=True)
    assert restored(own, told) == stream(sglext(routed_experts="AA==", routed_experts_dtype="int32"))


def test_a_chunk_that_says_more_than_what_was_added_keeps_the_rest() -> None:
    both = begun() | {"sglext": {"input_ids": [1]}}
    assert restored(asking(), both) == stream(begun())
    own = asking(stream_options={"include_usage": True})
    assert restored(own, usage() | {"sglext": {"output_ids": [[1]]}}) == stream(usage())
    kept = usage() | {"sglext": {"input_ids": [1], "cached_tokens_details": {}}}
    left = usage() | {"usage": None, "sglext": {"cached_tokens_details": {}}}
    assert restored(asking(), kept) == stream(left)


def test_the_usage_goes_unless_the_harness_asked_for_it() -> None:
    assert restored(asking(), usage()) == stream()
    assert restored(asking(stream_options={"include_usage": True}), usage()) == stream(usage())


def test_usage_beside_a_choice_and_in_a_chunk_without_choices_stays() -> None:
    running = chunk(said={"content": "4"}, usage={"completion_tokens": 1})
    bare = {"id": "1", "usage": {"completion_tokens": 1}}
    assert restored(asking(), running, bare) == stream(running, bare)


@pytest.mark.parametrize(
    "body",
    [
        b": ping\n\n:\n\nretry: 3000\n\nevent: ping\ndata: \n\n",
        event(b"{not json"),
        event(b"5") + event(b"[]") + event(b'"sglext"') + event(b'{"choices":5}'),
        event(b'{"error":{"object":"error","message":"full","code":503}}'),
        event(b'{"choices":[],"error":{"message":"full"}}'),
        event(compact(sglext(input_ids=[1])), name=b"another_type"),
        event(b'{"a":"\xe2\x80\xa8"}') + b"data:{\r\ndata:}\r\n\r\n",
    ],
)
def test_whatever_else_comes_passes_byte_for_byte(body: bytes) -> None:
    assert restored(asking(), body) == stream(body)


def test_added_data_of_several_lines_is_taken_off() -> None:
    lines = b'id: 1\ndata: {"choices":[{"delta":{},\ndata: "logprobs":{"content":[]}}]}\n\n'
    left = b'id: 1\ndata: {"choices":[{"delta":{},\ndata: "logprobs":null}]}\n\n'
    assert restored(asking(), lines) == stream(left)


STREAMS = {
    "plain": stream(*chunks()),
    "noise": b"\xef\xbb\xbf: hi\n\n" + stream(*chunks(), b": bye\n\n") + b": after\n\ndata: x",
    "two choices": stream(
        *(begun(1), token(1, (-0.5, 7, "\u2028é"), name="reasoning_content"), begun(), chunk(1, END)),
        *(token(0, FOUR), finished(1), finished(), sglext(routed_experts="AA==")),
        event(sglext(input_ids=[1], output_ids=[[19], [7, 151645]]), name=b"sglext_ids"),
        usage(1, 3),
    ),
    "cut": stream(*chunks()[:2], done=False) + event(token(0, FOUR))[:-40],
}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("body", STREAMS.values(), ids=STREAMS)
def test_a_stream_cut_at_any_byte_gives_the_same(body: bytes, line_end: bytes) -> None:
    body = body.replace(b"\n", line_end)
    expected, of_whole = handed_on(asking(), [body])
    assert of_whole.fault is None
    for at in range(len(body) + 1):
        got, restorer = handed_on(asking(), [body[:at], body[at:]])
        assert got == expected
        assert (restorer.done_seen, restorer.missing, restorer.fault) == (
            of_whole.done_seen,
            of_whole.missing,
            None,
        )
    assert handed_on(asking(), [body[at : at + 1] for at in range(len(body))])[0] == expected


@given(st.lists(st.sampled_from([*map(event, chunks()), DONE, b"\n", b"\r\n", b": x\n\n", b"data: ", b"{}"])))
@example([b"data: ", b"\n", b"data: ", b"{}"])
def test_of_whatever_comes_no_byte_is_lost_on_a_harness_that_asked_for_everything(parts: list[bytes]) -> None:
    own = asking(
        logprobs=True,
        stream_options={"include_usage": True},
        return_input_ids_in_sglext=True,
        return_output_ids_in_sglext=True,
    )
    assert handed_on(own, parts)[0] == b"".join(parts)


def test_an_event_passes_on_with_its_last_byte() -> None:
    restorer = LiveRestorer(asking())
    first = event(begun())
    assert [restorer.feed(first[:-1]), restorer.feed(first[-1:]), restorer.feed(b"")] == [b"", first, b""]


def test_where_done_begins_in_what_is_handed_on() -> None:
    restorer = LiveRestorer(asking())
    content = restorer.feed(event(begun()))
    assert (content, restorer.done_seen, restorer.done_at) == (event(begun()), False, None)
    last = restorer.feed(event(usage()) + event(finished()) + DONE + b": x\n\n")
    assert last == event(finished()) + DONE + b": x\n\n"
    assert (restorer.done_seen, restorer.done_at) == (True, len(event(finished())))
    assert (restorer.feed(DONE), restorer.done_at) == (DONE, None)


@pytest.mark.parametrize("end", [b"data: [D", b"data: [DONE]", b"data: [DONE]\n"])
def test_an_unfinished_done_passes_and_is_none(end: bytes) -> None:
    body, restorer = handed_on(asking(), [end])
    assert (body, restorer.done_seen) == (end, False)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (event(token(0, FOUR))[:-1], event(chunk(said={"content": "4"}))[:-1]),
        (event(token(0, FOUR))[:-4], event(token(0, FOUR)).partition(b'"logprobs"')[0]),
        (event(begun())[:40], event(begun())[:40]),
        (event(sglext(input_ids=[1]))[:-2], b""),
        (event(sglext(input_ids=[1]))[:-4], event(HEAD).partition(b"}")[0] + b","),
        (event(usage())[:-4], event(HEAD).partition(b"}")[0] + b","),
        (b": hi", b": hi"),
        (b"data: [1]", b"data: [1]"),
    ],
)
def test_of_an_event_that_breaks_off_nothing_added_passes(rest: bytes, expected: bytes) -> None:
    assert restored(asking(), rest, done=False) == expected


def test_an_event_over_which_it_fails_passes_as_it_came() -> None:
    # Python's json reads UTF-16 too, in which nothing can be edited.
    data = compact(sglext(cached_tokens_details={"device": 1}, input_ids=[1])).decode().encode("utf-16-le")
    body, restorer = handed_on(asking(), [event(data), stream(*chunks()), b"data: " + data])
    assert body == event(data) + stream(*chunks_without_turnstile()) + b"data: " + data
    assert type(restorer.fault).__name__ == "AskingError"


def test_a_whole_stream_lacks_nothing() -> None:
    assert missing(asking(), *chunks()) == ()


def test_facts_that_a_stream_lacks_are_named() -> None:
    assert missing(asking(moe=True), *chunks()) == (ROUTED,)
    bare = [begun(), finished()]
    assert missing(asking(), *bare) == ("prompt_token_ids", "sampled_token_ids", LOGPROBS)


def test_a_logprob_that_was_lost_on_the_way_is_missing() -> None:
    lossy = [each for each in chunks() if each != chunk(0, END)]
    assert missing(asking(), *lossy) == (LOGPROBS,)


@pytest.mark.parametrize(
    "values",
    [
        chunks()[:3],
        [begun(), event(b'{"error":{"message":"full"}}'), finished(), usage()],
        [begun(), finished(reason="abort"), usage(2, 0)],
    ],
)
def test_what_never_came_to_be_is_not_missing(values: list[dict[str, Any]]) -> None:
    assert missing(asking(), *values) == ()
