from tests.support.chat import choice, compact, completion
from tests.support.logs import stream_events
from turnstile.addon.backends.token_texts import token_texts


def test_a_whole_reply_tells_the_text_of_each_token() -> None:
    reply = compact(completion(choice(0), choice(1, sampled=((-1.0, 5, "five"),))))
    assert token_texts(reply, is_stream=False) == {0: ["4", "<|im_end|>"], 1: ["five"]}


def test_the_chunks_of_a_stream_are_put_together() -> None:
    stream = b"".join(stream_events([1], [4, 5], [6]))
    assert token_texts(stream, is_stream=True) == {0: ["<4>", "<5>"], 1: ["<6>"]}


def test_what_cannot_be_read_tells_none() -> None:
    assert token_texts(b"data: {\n\ndata: 7\n\n", is_stream=True) == {}
    assert token_texts(b"<html>", is_stream=False) == {}
    assert token_texts(compact(completion(choice(0, logprobs={"content": [7, {}]}))), is_stream=False) == {
        0: ["", ""]
    }
