import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import choice, compact, completion
from turnstile.addon.backends.long_spans import (
    cut_long_values,
    cut_prompts_and_logprobs,
    cut_routed_experts,
    uncut,
)


def test_the_long_values_of_every_choice_are_cut() -> None:
    reply = compact(completion(choice(0), choice(1, prompt_ids=(7,))))
    cut = cut_long_values(reply)
    rest = json.loads(cut.rest)
    for at, prompt in ((0, b"[151644,872]"), (1, b"[7]")):
        fields = rest["choices"][at]
        assert cut.values[fields["prompt_token_ids"]] == prompt
        assert json.loads(cut.values[fields["logprobs"]]) == choice()["logprobs"]
        rows = fields["meta_info"]["output_token_logprobs"]
        assert json.loads(cut.values[rows]) == choice()["meta_info"]["output_token_logprobs"]
    assert len(cut.values) == 6


ROUTING = "AAAAAAMAAAACAAAA" * 200


def test_routed_experts_are_cut_wherever_sglang_puts_them() -> None:
    in_choices = [choice(at, meta_info={"routed_experts": ROUTING[at:]}) for at in range(2)]
    reply = compact(completion(*in_choices, sglext={"routed_experts": ROUTING[2:]}))
    cut = cut_long_values(reply)
    rest = json.loads(cut.rest)
    found = [each["meta_info"]["routed_experts"] for each in rest["choices"]]
    found.append(rest["sglext"]["routed_experts"])
    assert [json.loads(cut.values[name]) for name in found] == [ROUTING[at:] for at in range(3)]
    assert len(cut.rest) < len(reply) - 3 * len(ROUTING)
    assert cut.put_back(compact(rest)) == reply


def test_of_a_chunk_only_the_routed_experts_are_cut() -> None:
    chunk = compact({"choices": [], "sglext": {"routed_experts": ROUTING, "input_ids": [1, 2]}})
    cut = cut_routed_experts(chunk)
    sglext = json.loads(cut.rest)["sglext"]
    assert sglext["input_ids"] == [1, 2]
    assert json.loads(cut.values[sglext["routed_experts"]]) == ROUTING
    assert cut.put_back(cut.rest) == chunk


@pytest.mark.parametrize("odd", [None, 7, [1], 'AA"', 'AA"BB', 'AA","x":"y', "\\", "", 'AA\\"', '\\"\\'])
def test_what_stands_in_the_place_of_routed_experts_is_put_back_or_left(odd: Any) -> None:
    reply = compact(completion(choice(meta_info={"routed_experts": odd})))
    cut = cut_long_values(reply)
    assert cut.put_back(cut.rest) == reply
    found = json.loads(cut.rest)["choices"][0]["meta_info"]["routed_experts"]
    put_in = json.loads(cut.values[found]) if isinstance(found, str) and found in cut.values else found
    assert put_in == odd


def test_nothing_is_put_back_where_nothing_was_cut() -> None:
    assert uncut(b"{}").put_back(b'"\\u0000cut0"') == b'"\\u0000cut0"'


def test_a_value_is_put_back_as_the_bytes_that_it_was() -> None:
    reply = compact(completion(choice(prompt_ids=(1, 2)), id="é")).replace(b"-0.5", b"-0.50e0")
    cut = cut_long_values(reply)
    assert cut.put_back(compact(json.loads(cut.rest))) == reply


def test_text_that_looks_like_the_end_of_the_logprobs_keeps_them_in_place() -> None:
    reply = compact(completion(choice(sampled=((-0.5, 19, "]},"), (-0.25, 7, "]],")))))
    cut = cut_long_values(reply)
    rest = json.loads(cut.rest)["choices"][0]
    assert rest["logprobs"] == json.loads(reply)["choices"][0]["logprobs"]
    assert rest["meta_info"]["output_token_logprobs"] == [[-0.5, 19, "]},"], [-0.25, 7, "]],"]]
    assert list(cut.values.values()) == [b"[151644,872]"]


def test_a_member_behind_the_logprobs_is_not_cut_with_them() -> None:
    reply = compact(completion()).replace(
        b'},"finish_reason":"stop"', b'},"x":{"y":[{}]},"finish_reason":"stop"'
    )
    assert b'"x":{"y":[{}]}' in cut_long_values(reply).rest


def test_what_looks_like_a_placeholder_keeps_all_in_place() -> None:
    reply = compact(completion(choice(message={"content": "\0cut0"})))
    assert cut_long_values(reply) == uncut(reply)
    assert cut_prompts_and_logprobs(reply) == uncut(reply)


def test_a_placeholder_inside_a_cut_value_is_not_filled() -> None:
    reply = compact(completion(choice(sampled=((-0.5, 19, "\0cut0"), (-0.5, 20, "b")))))
    cut = cut_long_values(reply)
    assert len(cut.values) == 3
    assert cut.put_back(cut.rest) == reply


def test_prompt_ids_are_found_in_whatever_layout() -> None:
    sglext = {"input_ids": [1, 2], "output_ids": [[3]]}
    for indent in (None, 1):
        reply = json.dumps(completion(sglext=sglext), indent=indent).encode()
        cut = cut_prompts_and_logprobs(reply)
        rest = json.loads(cut.rest)
        assert json.loads(cut.values[rest["choices"][0]["prompt_token_ids"]]) == [151644, 872]
        assert json.loads(cut.values[rest["sglext"]["input_ids"]]) == [1, 2]


def test_text_that_spells_the_key_is_left_alone() -> None:
    said = '"prompt_token_ids":[1,2] \\"input_ids": [3]'
    reply = compact({"content": said, "prompt_token_ids": "none", "input_ids": None})
    assert cut_prompts_and_logprobs(reply) == uncut(reply)


TEXT = st.text(st.sampled_from('"\\]}[{,:ax0é\0') | st.characters(codec="utf-8"), max_size=6)


@given(TEXT, st.lists(TEXT, max_size=4), st.lists(st.integers(0, 300), max_size=3))
def test_what_was_cut_and_put_back_is_the_reply(content: str, tokens: list[str], ids: list[int]) -> None:
    sampled = tuple((-0.5, at, text) for at, text in enumerate(tokens))
    reply = compact(
        completion(
            choice(message={"content": content}, sampled=sampled, prompt_ids=tuple(ids)), model=content
        )
    )
    for cut in (cut_long_values(reply), cut_prompts_and_logprobs(reply)):
        assert cut.put_back(cut.rest) == reply
        json.loads(cut.rest)
