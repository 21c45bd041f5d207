from typing import Any

import pytest

from turnstile.addon.backends import places
from turnstile.addon.backends.places import Choice


def choice_of(fields: dict[str, Any], position: int = 0, others: int = 0, **reply: Any) -> Choice:
    return Choice({"choices": [fields] + [{}] * others, **reply}, fields, position)


def test_a_choice_is_known_by_its_index_else_by_its_position() -> None:
    assert choice_of({"index": 2}).number == 2
    assert choice_of({}, position=1).number == 1
    assert choice_of({"index": "0"}, position=1).number == 1


@pytest.mark.parametrize("reply", [{}, {"sglext": None, "usage": 5, "metadata": "x"}])
def test_a_reply_that_says_nothing_gives_nothing(reply: dict[str, Any]) -> None:
    choice = choice_of({"meta_info": None}, **reply)
    for find in (
        places.prompt_ids,
        places.sampled_ids,
        places.logprobs,
        places.prompt_token_counts,
        places.completion_token_counts,
        places.routed_experts,
    ):
        assert find(choice) == {}


def test_prompt_ids_are_found_in_the_choice_the_reply_and_sglext() -> None:
    choice = choice_of({"prompt_token_ids": [1]}, prompt_token_ids=[2], sglext={"input_ids": [3]})
    assert places.prompt_ids(choice) == {
        "prompt_token_ids": [1],
        "reply.prompt_token_ids": [2],
        "sglext.input_ids": [3],
    }


def test_sampled_ids_are_found_in_every_place_that_a_version_has_used() -> None:
    meta_info = {"output_token_logprobs": [[-0.5, 1, "a"]]}
    fields = {"index": 1, "meta_info": meta_info, "response_token_ids": [2], "token_ids": [3]}
    assert places.sampled_ids(choice_of(fields, sglext={"output_ids": [[0], [4]]})) == {
        "meta_info.output_token_logprobs": [[-0.5, 1, "a"]],
        "response_token_ids": [2],
        "token_ids": [3],
        "sglext.output_ids": [4],
    }


@pytest.mark.parametrize("output_ids", [[[0]], [], None, "text", [[0], None]])
def test_ids_of_another_choice_are_not_taken_for_this_ones(output_ids: Any) -> None:
    assert places.sampled_ids(choice_of({"index": 1}, sglext={"output_ids": output_ids})) == {}


def test_logprobs_are_found_in_the_engines_rows_and_in_openais() -> None:
    fields = {"logprobs": {"content": [1]}, "meta_info": {"output_token_logprobs": [2]}}
    assert places.logprobs(choice_of(fields)) == {
        "meta_info.output_token_logprobs": [2],
        "logprobs.content": [1],
    }
    assert places.logprobs(choice_of({"logprobs": {"content": None}})) == {}


def test_the_usages_sum_over_several_choices_is_no_count_of_one() -> None:
    fields = {"meta_info": {"completion_tokens": 2, "output_token_logprobs_length": 3, "prompt_tokens": 4}}
    usage = {"completion_tokens": 5, "prompt_tokens": 6}
    alone, of_two = choice_of(fields, usage=usage), choice_of(fields, others=1, usage=usage)
    of_engine = {"meta_info.completion_tokens": 2, "meta_info.output_token_logprobs_length": 3}
    assert places.completion_token_counts(alone) == of_engine | {"usage.completion_tokens": 5}
    assert places.completion_token_counts(of_two) == of_engine
    assert places.prompt_token_counts(of_two) == {"meta_info.prompt_tokens": 4, "usage.prompt_tokens": 6}


def test_routing_is_found_in_every_place_that_a_version_has_used() -> None:
    fields = {
        "meta_info": {"routed_experts": "a"},
        "sgl_ext": {"routed_experts": "b"},
        "routed_experts": "c",
    }
    assert places.routed_experts(choice_of(fields, sglext={"routed_experts": "d"})) == {
        "meta_info.routed_experts": "a",
        "sgl_ext.routed_experts": "b",
        "routed_experts": "c",
        "sglext.routed_experts": "d",
    }


def test_what_the_whole_reply_says_is_the_first_choices() -> None:
    metadata = {"weight_version": "step-1"}
    first, second = (
        choice_of({"index": at}, metadata=metadata, sglext={"routed_experts": "d"}) for at in (0, 1)
    )
    assert (first.metadata, second.metadata) == (metadata, {})
    assert places.routed_experts(second) == {}
