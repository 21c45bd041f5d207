import copy
from typing import Any

import pytest

from tests.support.chat import as_without_turnstile, choice, completion
from turnstile.addon.backends.asking import (
    FLAGS,
    INPUT_IDS_IN_SGLEXT,
    LOGPROBS,
    META_INFO,
    OUTPUT_IDS_IN_SGLEXT,
    PROMPT_IDS,
    ROUTED_EXPERTS,
    TOKEN_IDS,
    Asking,
    Harness,
)
from turnstile.addon.backends.taking_off import take_off

DENSE = frozenset({LOGPROBS, META_INFO, PROMPT_IDS})


def taken_off(
    reply: dict[str, Any], wanted: frozenset[str] = DENSE, own: set[str] | None = None
) -> dict[str, Any]:
    changed = copy.deepcopy(reply)
    assert take_off(changed, Asking((), Harness(flags=frozenset(own or ())), wanted)) is (changed != reply)
    return changed


def test_the_harness_gets_what_the_server_alone_would_have_sent() -> None:
    reply = completion(choice(0), choice(1))
    assert taken_off(reply) == as_without_turnstile(reply)


def test_what_the_server_sends_unasked_stays() -> None:
    reply = completion(
        sglext={"input_ids": [1], "cached_tokens_details": {"device": 1}}, metadata={"weight_version": "1"}
    )
    assert taken_off(reply) == as_without_turnstile(reply)


def test_a_reply_without_what_was_added_is_not_changed() -> None:
    reply = as_without_turnstile(completion())
    assert taken_off(reply) == reply


@pytest.mark.parametrize("added", [frozenset(), frozenset({TOKEN_IDS})])
def test_every_field_that_the_harness_asked_for_stays(added: frozenset[str]) -> None:
    reply = completion(choice(), sglext={"input_ids": [1], "output_ids": [[2]], "routed_experts": "AA=="})
    assert taken_off(reply, DENSE | added, own=set(FLAGS) - {TOKEN_IDS}) == reply


def test_logprobs_stay_when_only_they_were_asked_for() -> None:
    reply = completion()
    assert taken_off(reply, own={LOGPROBS}) == as_without_turnstile(reply, logprobs=True)


def test_meta_info_asked_for_without_logprobs_has_none_of_theirs() -> None:
    meta_info = taken_off(completion(), own={META_INFO})["choices"][0]["meta_info"]
    assert meta_info == {
        name: value for name, value in choice()["meta_info"].items() if "logprobs" not in name
    }
    assert meta_info["completion_tokens"] == 2


def test_token_ids_asked_for_bring_the_prompts_ids_too() -> None:
    reply = completion(choice(response_token_ids=[19, 151645]))
    kept = taken_off(reply, own={TOKEN_IDS})["choices"][0]
    assert (kept["prompt_token_ids"], kept["response_token_ids"]) == ([151644, 872], [19, 151645])
    assert "meta_info" not in kept


@pytest.mark.parametrize("name", ["response_token_ids", "token_ids"])
def test_token_ids_that_were_added_go_under_either_name(name: str) -> None:
    reply = completion(choice() | {name: [19]})
    assert name not in taken_off(reply, DENSE | {TOKEN_IDS})["choices"][0]
    kept = taken_off(reply, DENSE | {TOKEN_IDS}, own={PROMPT_IDS})["choices"][0]
    assert kept["prompt_token_ids"] == [151644, 872]
    assert name not in kept


def test_vllms_prompt_ids_of_the_whole_reply_go() -> None:
    reply = completion(choice(token_ids=[19]), prompt_token_ids=[1])
    added = frozenset({LOGPROBS, TOKEN_IDS})
    assert "prompt_token_ids" not in taken_off(reply, added)
    assert taken_off(reply, added, own={TOKEN_IDS})["prompt_token_ids"] == [1]


ROUTED = DENSE | {ROUTED_EXPERTS}


@pytest.mark.parametrize(
    "reply",
    [
        completion(choice(meta_info={"routed_experts": "AA==", "routed_experts_dtype": "uint8"})),
        completion(choice(sgl_ext={"routed_experts": "AA=="})),
        completion(sglext={"routed_experts": "AA==", "input_ids": None}),
    ],
)
def test_routing_that_was_added_goes_from_every_place(reply: dict[str, Any]) -> None:
    gone = taken_off(reply, ROUTED)
    assert "AA==" not in repr(gone)
    assert not {"sglext", "sgl_ext"} & {*gone, *gone["choices"][0]}
    assert "routed_experts" not in repr(taken_off(reply, ROUTED, own={META_INFO}))


def test_other_extensions_beside_added_routing_stay() -> None:
    reply = completion(sglext={"routed_experts": "AA==", "cached_tokens_details": {"device": 1}})
    assert taken_off(reply, ROUTED)["sglext"] == {"cached_tokens_details": {"device": 1}}


def test_routing_asked_for_without_meta_info_stands_where_the_server_would_have_put_it() -> None:
    routing = {"routed_experts": "AA==", "routed_experts_dtype": "uint8"}
    reply = completion(choice(0, meta_info=routing), choice(1, meta_info={"routed_experts": "AQ=="}))
    expected = as_without_turnstile(reply) | {"sglext": routing}
    assert taken_off(reply, ROUTED, own={ROUTED_EXPERTS}) == expected


def test_routing_that_stands_in_both_places_is_taken_from_sglext() -> None:
    reply = completion(choice(meta_info={"routed_experts": "AA=="}), sglext={"routed_experts": "AA=="})
    assert taken_off(reply, ROUTED, own={ROUTED_EXPERTS})["sglext"] == {"routed_experts": "AA=="}


def test_ids_in_sglext_go_only_where_they_were_added() -> None:
    reply = completion(sglext={"input_ids": [1], "output_ids": [[2]]})
    added = DENSE | {INPUT_IDS_IN_SGLEXT, OUTPUT_IDS_IN_SGLEXT}
    assert taken_off(reply, added) == {k: v for k, v in as_without_turnstile(reply).items() if k != "sglext"}
    assert taken_off(reply, added, own={OUTPUT_IDS_IN_SGLEXT})["sglext"] == {"output_ids": [[2]]}


@pytest.mark.parametrize(
    ("reply", "stays"),
    [
        ({"choices": []}, {"choices": []}),
        (
            {"choices": [None, 5, "text", {}], "sglext": [1]},
            {"choices": [None, 5, "text", {}], "sglext": [1]},
        ),
        (
            {"choices": [{"meta_info": "text", "logprobs": None, "sgl_ext": 7}]},
            {"choices": [{"logprobs": None, "sgl_ext": 7}]},
        ),
    ],
)
@pytest.mark.parametrize("own", [set(), {ROUTED_EXPERTS}])
def test_odd_replies_are_no_obstacle(reply: dict[str, Any], stays: dict[str, Any], own: set[str]) -> None:
    assert taken_off(reply, ROUTED, own=own) == stays
