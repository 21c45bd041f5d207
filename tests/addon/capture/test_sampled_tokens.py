import pytest

from tests.support.chat import choice, compact, completion
from tests.support.logs import stream_events
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.capture.sampled_tokens import SampledToken, sampled_tokens


def test_a_whole_reply_and_a_stream_tell_tokens_alike() -> None:
    assert sampled_tokens(compact(completion())) == {
        0: [SampledToken(19, -0.5, "4"), SampledToken(151645, -0.25, "<|im_end|>")]
    }
    assert sampled_tokens(b"".join(stream_events([1], [4], [5]))) == {
        0: [SampledToken(4, -0.125, "<4>")],
        1: [SampledToken(5, -0.125, "<5>")],
    }


def test_what_does_not_fit_the_ids_is_unknown() -> None:
    reply = completion(choice(token_ids=[5, 6, 7], meta_info={"output_token_logprobs": None}))
    assert sampled_tokens(compact(reply))[0][0] == SampledToken(5, None, "")


def test_what_is_no_completion_is_refused() -> None:
    with pytest.raises(UndecodableReply):
        sampled_tokens(b"{}")
