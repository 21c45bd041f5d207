import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import as_without_turnstile, chat_request, choice, compact, completion
from turnstile.addon.backends.asking import Asking, ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.restoring import EVENT_STREAM, Restored, restore_chat

SGLANG = BackendFacts(kind="sglang", version=(0, 5, 23))


def asking(moe: bool = False, **fields: Any) -> Asking:
    return ask_chat(chat_request(**fields), SGLANG, moe="full" if moe else "off")


def test_what_was_added_is_taken_off() -> None:
    reply = completion(choice(0), choice(1))
    assert restore_chat(compact(reply), 200, asking()) == Restored(
        compact(as_without_turnstile(reply)), content_type=None, missing=()
    )


def test_spaces_in_the_reply_make_no_difference() -> None:
    reply = completion()
    restored = restore_chat(json.dumps(reply, indent=1).encode(), 200, asking())
    assert json.loads(restored.body) == as_without_turnstile(reply)


def test_logprobs_that_the_harness_wants_keep_their_bytes() -> None:
    logprobs = b'{"content":[{"token":"\\ud800","bytes":[],"logprob":-0.50e0,"top_logprobs":[]}]}'
    raw = compact(completion()).replace(compact(choice()["logprobs"]), logprobs)
    restored = restore_chat(raw, 200, asking(logprobs=True))
    assert logprobs in restored.body
    assert b"prompt_token_ids" not in restored.body


ROUTING = "AAAAAAMAAAACAAAA" * 200


@pytest.mark.parametrize("stream", [False, True])
def test_routing_that_only_capture_asked_for_is_dropped(stream: bool) -> None:
    reply = completion(choice(0, meta_info={"routed_experts": ROUTING}))
    restored = restore_chat(compact(reply), 200, asking(moe=True, stream=stream))
    assert restored == restore_chat(compact(completion()), 200, asking(stream=stream))


@pytest.mark.parametrize("stream", [False, True])
def test_routing_that_the_harness_asked_for_keeps_its_bytes_in_the_place_where_it_expects_it(
    stream: bool,
) -> None:
    routing = '"routed_experts":"' + ROUTING.replace("AAMA", "AA\\u004dA", 1) + '"'
    reply = compact(completion(choice(0, meta_info={"routed_experts": "R"}), choice(1)))
    reply = reply.replace(b'"routed_experts":"R"', routing.encode())
    restored = restore_chat(reply, 200, asking(moe=True, stream=stream, return_routed_experts=True))
    assert restored.body.count(b'"sglext":{' + routing.encode()) == 1
    assert restored.missing == ("routed_experts",)  # of the second choice


@pytest.mark.parametrize("odd", [b"18446744073709551616", b"NaN", b'"\\ud800"'])
def test_what_one_json_library_would_change_is_not_changed(odd: bytes) -> None:
    raw = compact(completion()).replace(b'"model":"tiny"', b'"model":' + odd)
    assert b'"model":' + odd in restore_chat(raw, 200, asking()).body


def test_a_reply_that_holds_nothing_added_goes_on_byte_for_byte() -> None:
    raw = json.dumps(as_without_turnstile(completion()), indent=3).encode()
    assert restore_chat(raw, 200, asking()).body is raw


def test_a_harness_that_asked_for_everything_gets_the_backends_bytes() -> None:
    raw = b" " + compact(completion())
    own = asking(logprobs=True, return_meta_info=True, return_prompt_token_ids=True)
    assert restore_chat(raw, 200, own) == Restored(raw, content_type=None, missing=())


@pytest.mark.parametrize("status", [400, 404, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_goes_on_as_it_is(status: int, stream: bool) -> None:
    raw = b'{ "object":"error", "message":"too long", "code":400}'
    assert restore_chat(raw, status, asking(stream=stream)) == Restored(raw, content_type=None, missing=())


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b"[]", b'{"choices":{}}', b'{"error":"x"}', b"data: {}\n\n", b"[" * 100_000]
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_completion_goes_on_as_it_is_and_lacks_every_fact(raw: bytes, stream: bool) -> None:
    restored = restore_chat(raw, 200, asking(stream=stream))
    assert restored == Restored(raw, None, ("prompt_token_ids", "sampled_token_ids", "logprobs"))


def test_a_harness_that_asked_for_a_stream_gets_one() -> None:
    restored = restore_chat(compact(completion()), 200, asking(stream=True, logprobs=True))
    assert restored.content_type == EVENT_STREAM
    assert restored.missing == ()
    events = restored.body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert [chunk["choices"][0]["logprobs"] for chunk in chunks] == [None, choice()["logprobs"], None]
    assert "prompt_token_ids" not in restored.body.decode()


TEXT = st.text(st.sampled_from('"\\]}[{,:ax0é\0') | st.characters(codec="utf-8"), max_size=6)


@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=4)), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_a_reply_is_restored_alike_in_whatever_layout_it_comes(
    said: list[tuple[str, list[str]]], logprobs: bool, stream: bool
) -> None:
    choices = [
        choice(at, message={"content": text}, sampled=tuple((-0.5, 19, token) for token in tokens))
        for at, (text, tokens) in enumerate(said)
    ]
    reply, asked = completion(*choices), asking(logprobs=logprobs, stream=stream)
    restored = restore_chat(compact(reply), 200, asked)
    spaced = restore_chat(json.dumps(reply, indent=1).encode(), 200, asked)
    assert [_data(line) for line in restored.body.splitlines()] == [
        _data(line) for line in spaced.body.splitlines()
    ]
    assert restored.missing == spaced.missing == ()
    if not stream:
        assert json.loads(restored.body) == as_without_turnstile(reply, logprobs=logprobs)


def _data(line: bytes) -> Any:
    text = line.removeprefix(b"data: ")
    return json.loads(text) if text.startswith(b"{") else text


PROMPT, SAMPLED, LOGPROBS, ROUTED = "prompt_token_ids", "sampled_token_ids", "logprobs", "routed_experts"


@pytest.mark.parametrize(
    ("reply", "missing"),
    [
        (completion(choice(meta_info={"routed_experts": "AA=="})), ()),
        (completion(), (ROUTED,)),
        (as_without_turnstile(completion()), (PROMPT, SAMPLED, LOGPROBS, ROUTED)),
        (as_without_turnstile(completion(), logprobs=True), (PROMPT, SAMPLED, ROUTED)),
        (completion(choice(logprobs=None), sglext={"routed_experts": "AA=="}), ()),
        (
            as_without_turnstile(
                completion(sglext={"input_ids": [1], "output_ids": [[2]], "routed_experts": "AA=="})
            ),
            (LOGPROBS,),
        ),
        (
            completion(choice(0), as_without_turnstile(completion(choice(1)))["choices"][0]),
            (PROMPT, SAMPLED, LOGPROBS, ROUTED),
        ),
        (completion(choice(meta_info=None, response_token_ids=[1], sgl_ext={"routed_experts": ""})), ()),
        ({"choices": []}, ()),
    ],
)
def test_facts_that_a_choice_lacks_are_named(reply: dict[str, Any], missing: tuple[str, ...]) -> None:
    assert restore_chat(compact(reply), 200, asking(moe=True)).missing == missing


def test_a_choice_that_was_aborted_before_it_began_lacks_nothing() -> None:
    aborted = as_without_turnstile(completion(choice(finish_reason="abort")))
    assert restore_chat(compact(aborted), 200, asking()).missing == ()


def test_only_what_capture_needs_can_be_missing() -> None:
    raw = compact(completion())
    assert restore_chat(raw, 200, asking(return_routed_experts=True)).missing == ()
