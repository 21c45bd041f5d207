import json

from hypothesis import given
from hypothesis import strategies as st

from tests.support.chat import choice, compact, completion, tool_call_choice
from tests.support.logs import stream_events
from turnstile.addon.backends.glance import Glance, glance


def test_a_whole_reply_tells_its_tokens_and_why_it_ended() -> None:
    assert glance(compact(completion())) == Glance(2, 2, ("stop",))


def test_white_space_does_not_matter() -> None:
    assert glance(json.dumps(completion(), indent=2).encode()) == Glance(2, 2, ("stop",))


def test_choices_that_ended_differently_are_all_told() -> None:
    reply = compact(completion(choice(0), tool_call_choice(1)))
    assert glance(reply).finish_reasons == ("stop", "tool_calls")


def test_an_abort_that_only_the_engine_tells_is_one() -> None:
    aborted = choice(finish_reason="stop", meta_info={"finish_reason": {"type": "abort", "message": "oh"}})
    assert glance(compact(completion(aborted))).finish_reasons == ("abort",)


def test_a_stream_tells_the_same() -> None:
    assert glance(b"".join(stream_events([1, 2, 3], [4, 5]))) == Glance(3, 2, ("stop",))


def test_a_stream_without_its_end_tells_nothing() -> None:
    assert glance(b"".join(stream_events([1, 2, 3], [4, 5])[:2])) == Glance(None, None, ())


def test_null_behind_the_usage_does_not_hide_it() -> None:
    reply = b'data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: {"usage":null}\n\n'
    assert glance(reply) == Glance(3, 4, ())


def test_a_sampled_token_that_is_spelled_so_does_not_hide_it() -> None:
    reply = b'{"usage" : {"prompt_tokens":3,"completion_tokens":4},"tokens":["usage","usage"]}'
    assert glance(reply) == Glance(3, 4, ())


def test_what_the_model_wrote_is_not_taken_for_a_field() -> None:
    said = '"usage":{"prompt_tokens":77,"completion_tokens":88},"finish_reason":"abort"'
    last = completion(usage=None, system_fingerprint=said)
    assert glance(compact(last)) == Glance(None, None, ("stop",))


@given(st.binary())
def test_anything_can_be_glanced_at(reply: bytes) -> None:
    assert glance(reply).prompt_tokens is None
