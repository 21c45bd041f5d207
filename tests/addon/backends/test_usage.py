import json

import pytest

from tests.support.backend import chat_reply, chat_stream
from turnstile.addon.backends.usage import token_counts

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
