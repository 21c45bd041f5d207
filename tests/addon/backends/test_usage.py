import json
from typing import Any

import pytest

from tests.support.backend import chat_reply, chat_stream
from turnstile.addon.backends.usage import longest_answer, token_counts

ASKED = {"stream_options": {"include_usage": True}}


def test_a_reply_and_a_stream_tell_their_tokens() -> None:
    assert token_counts(chat_reply({})) == (3, 2)
    assert token_counts(chat_reply({"n": 2})) == (3, 4)
    assert token_counts(b"".join(chat_stream(ASKED, "a", "b", "c"))) == (3, 3)


def test_a_stream_without_usage_tells_none() -> None:
    assert token_counts(b"".join(chat_stream({}, "a"))) is None


def test_what_a_model_writes_is_no_usage() -> None:
    said = json.dumps({"usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    assert token_counts(chat_reply({}, content=said)) == (3, 2)
    assert token_counts(json.dumps({"choices": [{"message": {"content": said}}]}).encode()) is None


def test_an_empty_usage_behind_the_real_one_is_passed_over() -> None:
    assert token_counts(b'{"usage": {"prompt_tokens": 7, "completion_tokens": 8}, "usage" : null}') == (7, 8)


def test_words_behind_it_that_are_spelled_like_the_key_do_not_hide_it() -> None:
    told = b'{"usage": {"prompt_tokens": 7, "completion_tokens": 8}, "tokens": ['
    assert token_counts(told + b", ".join([b'"usage"'] * 20) + b"]}") == (7, 8)
    assert token_counts(told + b"]}" + b'\n\ndata: {"usage":null}' * 20) == (7, 8)


@pytest.mark.parametrize(
    "usage",
    [
        b"null",
        b"[]",
        b"{",
        b'{"prompt_tokens": 1}',
        b'{"prompt_tokens": true, "completion_tokens": 1}',
        b'{"prompt_tokens": -1, "completion_tokens": 1}',
        b'{"prompt_tokens": 1.0, "completion_tokens": 1}',
    ],
)
def test_a_usage_that_tells_no_counts_is_none(usage: bytes) -> None:
    assert token_counts(b'{"usage": ' + usage + b"}") is None


def uneven(**asked: bool) -> dict[str, Any]:
    """Two choices of two and of five tokens."""
    reply, longer = (
        json.loads(chat_reply({"n": 2} | asked, sampled_ids=ids)) for ids in ((1, 2), (1, 2, 3, 4, 5))
    )
    reply["choices"][1] = longer["choices"][1]
    reply["usage"]["completion_tokens"] = 7
    return dict(reply)


@pytest.mark.parametrize("asked", [{"return_meta_info": True}, {"logprobs": True}])
def test_the_longest_answer_is_told_by_whatever_tells_of_each(asked: dict[str, bool]) -> None:
    assert longest_answer(json.dumps(uneven(**asked)).encode(), 7, choices=2) == 5


@pytest.mark.parametrize("reply", [json.dumps(uneven()).encode(), b"[]", b"no json"])
def test_where_nothing_tells_of_each_answer_the_longest_has_their_mean_at_least(reply: bytes) -> None:
    assert longest_answer(reply, 7, choices=2) == 4
    assert longest_answer(reply, 7, choices=1) == 7
