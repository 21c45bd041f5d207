import base64
import hashlib
from typing import Any

import pytest

from tests.support import chat_streams
from tests.support.chat import TOOL_CALL, choice, compact, completion
from tests.support.logs import stream_events
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.capture.shown_reply import Known, prompt_ids_of, shown_reply

GIF = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def shown(*choices: Any, **known: Any) -> list[str]:
    return shown_reply(compact(completion(*choices)), Known("none here", **known)).splitlines()


def before_the_prompt(lines: list[str]) -> list[str]:
    return lines[: next(at for at, line in enumerate(lines) if line.startswith("    prompt:"))]


def test_a_choice_is_shown_with_what_it_says_and_its_tokens() -> None:
    assert shown(choice(message={"tool_calls": [TOOL_CALL], "reasoning_content": "Hm."})) == [
        "choice 0:  finish stop  1 prompt tokens cached",
        "    thinking:",
        "        Hm.",
        "    4",
        '    calls get_weather {"zip": "879"}  (call_579a88c8993641268595f06b)',
        "",
        "    sampled: 2 tokens",
        "            at      id    logprob  mask  weights  text",
        '             2      19   -0.50000     1  step-1   "4"',
        '             3  151645   -0.25000     1  step-1   "<|im_end|>"',
        "    prompt: 2 tokens, mask 0",
        "        151644 872",
    ]


def test_weights_that_changed_are_shown_by_the_token() -> None:
    spans = [{"version": "step-1", "start": 0, "end": 1}, {"version": "step-2", "start": 1, "end": 2}]
    lines = before_the_prompt(shown(choice(meta_info={"weight_versions": spans, "weight_version": "step-2"})))
    assert [line.split()[4] for line in lines[-2:]] == ["step-1", "step-2"]


def test_a_token_whose_logprob_is_unknown_is_not_trainable() -> None:
    lines = before_the_prompt(
        shown(choice(sampled=((None, 5, "a"), (0.5, 6, "b"), (-1.0, "7", "c"), (-2.0, 8, "d"))))
    )
    assert [line.split()[2:4] for line in lines[-4:]] == [
        ["None", "0"],
        ["0.50000", "0"],
        ["-1.00000", "0"],
        ["-2.00000", "1"],
    ]


def test_logprobs_that_are_not_one_for_each_id_are_not_shown_beside_them() -> None:
    rows: Any = {"output_token_logprobs": None}
    lines = before_the_prompt(shown(choice(token_ids=[5, 6, 7], meta_info=rows)))
    assert "        logprobs: 2, not shown beside 3 ids" in lines
    assert lines[-1].split() == ["4", "7", "-", "0", "step-1"]


def test_places_that_contradict_each_other_are_told() -> None:
    assert before_the_prompt(shown(choice(token_ids=[19, 20])))[-1] == (
        "    ! the sampled ids of token_ids are not those of meta_info.output_token_logprobs"
    )


def test_routing_is_shown_by_a_digest_a_token_and_one_of_the_whole() -> None:
    rows = bytes(range(24))
    told = choice(meta_info={"routed_experts": base64.b64encode(rows).decode()})
    lines = before_the_prompt(shown(told, shape=MoeShape(2, 1)))
    row = hashlib.blake2b(rows[16:], digest_size=3).hexdigest()
    assert lines[-4:] == [
        "            at      id    logprob  mask  weights  routing  text",
        f'             2      19   -0.50000     1  step-1   {row}   "4"',
        '             3  151645   -0.25000     1  step-1   -        "<|im_end|>"',
        f"    routed experts: 24 bytes of int32, sha256 {hashlib.sha256(rows).hexdigest()[:12]}",
    ]


def test_routing_that_cannot_be_read_is_said_below_the_tokens() -> None:
    lines = before_the_prompt(shown(choice(meta_info={"routed_experts": "A"})))
    assert lines[-2].endswith('-0.25000     1  step-1   "<|im_end|>"')
    assert lines[-1] == "    routed experts: 1 characters that are no base64"


def test_the_tokens_of_an_image_are_named_after_it() -> None:
    images = ({"url": GIF}, "https://images.example/a.png")
    told = choice(prompt_ids=(7, 9, 9, 8, 9))
    named = "        7 [image c552a1e8 1x1, 2 tokens] 8 [image https://images.example/a.png]"
    assert named in shown(told, images=images, image_token=9)
    for other in ({"images": images}, {"images": images[:1], "image_token": 9}):
        assert "        7 9 9 8 9" in shown(told, **other)


def test_a_run_of_placeholders_is_counted_and_a_long_prompt_cut_in_the_middle() -> None:
    assert "        7 9 x5 8" in shown(choice(prompt_ids=(7, 9, 9, 9, 9, 9, 8)))
    lines = shown(choice(prompt_ids=tuple(range(12_000))))
    assert "        ... 984 lines more ..." in lines
    assert len(lines) < 40


def test_a_choice_without_ids_says_so() -> None:
    bare = {"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}
    assert shown(bare) == ["choice 0:  finish stop", "    4", "", "    none here"]


def test_a_stream_is_shown_like_a_whole_reply() -> None:
    lines = shown_reply(b"".join(stream_events([1, 2], [4, 5])), Known("")).splitlines()
    assert lines[0] == "choice 0:  finish stop"
    assert before_the_prompt(lines)[-2:] == [
        '             2       4   -0.12500     1  -        "<4>"',
        '             3       5   -0.25000     1  -        "<5>"',
    ]


def test_a_stream_that_broke_off_is_shown_as_far_as_it_came() -> None:
    events = stream_events([1, 2], [4, 5])[:2]
    failed = chat_streams.event({"error": {"message": "out of memory"}})
    lines = shown_reply(b"".join([*events, failed]), Known("")).splitlines()
    assert lines[:2] == ["error: out of memory", "the stream ended before [DONE]"]
    assert "choice 0:  finish None" in lines


def test_the_prompt_ids_are_those_of_the_first_choice_that_has_any() -> None:
    assert prompt_ids_of(compact(completion())) == [151644, 872]
    assert prompt_ids_of(b"".join(stream_events([1, 2], [4]))) == [1, 2]


def test_what_is_no_completion_is_refused() -> None:
    with pytest.raises(UndecodableReply):
        shown_reply(b"<html>", Known(""))
