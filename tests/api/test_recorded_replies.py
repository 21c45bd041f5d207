import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.chat import as_without_turnstile, chat_request, choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.backends.asking import ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.recorded_replies import Answer, RecordedReplies, request_key

FACTS = BackendFacts(kind="sglang", version=(0, 5, 23), version_text="0.5.23")
CHAT = "/v1/chat/completions"


def recorded(number: int, text: str = "4", request: bytes | None = None, **fields: Any) -> Exchange:
    """An exchange that was captured, answered with `text`."""
    body = request or chat_request()
    reply = compact(completion(choice(message={"content": text})))
    splices = fields.pop("splices", None)
    if splices is None:
        splices = ask_chat(body, FACTS).splices
    return exchange(number, request=body, splices=splices, **{"reply": reply} | fields)


def log_of(folder: Path, *exchanges: Exchange, facts: BackendFacts | None = FACTS) -> Path:
    writer = LogWriter(folder, program="test")
    if facts is not None:
        writer.set_backend(facts.as_record())
    writer.write(exchanges)
    path = Path(writer.position.path)
    writer.close()
    return path


def content(answer: Answer | None) -> Any:
    assert answer is not None
    return json.loads(answer.body)["choices"][0]["message"]["content"]


def test_a_request_gets_the_reply_with_what_it_asks_for(tmp_path: Path) -> None:
    reply = completion()
    with RecordedReplies([log_of(tmp_path, recorded(1))]) as replies:
        plain = replies.answer("POST", CHAT, chat_request())
        asked = chat_request(logprobs=True, return_meta_info=True, return_prompt_token_ids=True)
        whole = replies.answer("POST", CHAT, asked)
    assert plain == Answer(200, "application/json", compact(as_without_turnstile(reply)))
    assert whole == Answer(200, "application/json", compact(reply))


def test_a_stream_is_answered_with_a_stream(tmp_path: Path) -> None:
    with RecordedReplies([log_of(tmp_path, recorded(1))]) as replies:
        answer = replies.answer(
            "POST", CHAT, chat_request(stream=True, stream_options={"include_usage": True})
        )
    assert answer is not None
    assert (answer.status, answer.content_type) == (200, "text/event-stream; charset=utf-8")
    assert answer.body.startswith(b'data: {"id"')
    assert b'"usage":{"prompt_tokens":2,' in answer.body
    assert b'logprob"' not in answer.body


def test_the_same_request_gets_the_next_reply_and_then_the_first_again(tmp_path: Path) -> None:
    log = log_of(tmp_path, recorded(2, "second"), recorded(1, "first"), recorded(3, "x", chat_request(n=2)))
    with RecordedReplies([log]) as replies:
        assert len(replies) == 3
        said = [content(replies.answer("POST", CHAT, chat_request())) for _ in range(3)]
    assert said == ["first", "second", "first"]


def test_logs_of_a_folder_are_one(tmp_path: Path) -> None:
    log_of(tmp_path, recorded(2, "second", log_id="a" * 16))
    log_of(tmp_path, recorded(1, "first", log_id="b" * 16))
    with RecordedReplies([tmp_path]) as replies:
        assert [content(replies.answer("POST", CHAT, chat_request())) for _ in range(2)] == [
            "first",
            "second",
        ]


def test_an_error_is_given_again_with_its_status(tmp_path: Path) -> None:
    error = b'{"object":"error","message":"too long","code":400}'
    with RecordedReplies([log_of(tmp_path, recorded(1, status=400, reply=error))]) as replies:
        for stream in (False, True):
            answer = replies.answer("POST", CHAT, chat_request(stream=stream))
            assert answer == Answer(400, "application/json", error)


def test_a_body_that_is_no_json_is_matched_as_it_is(tmp_path: Path) -> None:
    broken = recorded(1, request=b'{"messages"', splices=(), status=400, reply=b'{"message":"bad"}')
    with RecordedReplies([log_of(tmp_path, broken)]) as replies:
        assert replies.answer("POST", CHAT, b'{"messages"') == Answer(
            400, "application/json", b'{"message":"bad"}'
        )
        assert replies.answer("POST", CHAT, b'{"message"') is None


def test_only_whole_replies_are_given(tmp_path: Path) -> None:
    lost = [
        recorded(1, outcome="client_left", status=None, reply=b""),
        recorded(2, outcome="backend_failed", status=200, reply=b'{"choi'),
        recorded(3, outcome="refused", status=None, reply=b""),
    ]
    with RecordedReplies([log_of(tmp_path, *lost)]) as replies:
        assert (len(replies), replies.facts) == (0, None)
        assert replies.answer("POST", CHAT, chat_request()) is None


def test_a_compressed_reply_is_given_plain(tmp_path: Path) -> None:
    reply = compact(completion())
    packed = recorded(1, reply=gzip.compress(reply), reply_headers=(("Content-Encoding", "gzip"),))
    with RecordedReplies([log_of(tmp_path, packed)]) as replies:
        assert replies.answer("POST", CHAT, chat_request()) == Answer(
            200, "application/json", compact(as_without_turnstile(completion()))
        )


def test_a_reply_that_cannot_be_decoded_is_left_out_and_named(tmp_path: Path) -> None:
    odd = recorded(1, reply=b"x", reply_headers=(("content-encoding", "br"),))
    with RecordedReplies([log_of(tmp_path, odd, recorded(2))]) as replies:
        assert len(replies) == 1
        [damage] = replies.damages
    assert damage.startswith(f"{odd.exchange_id} is left out: content-encoding 'br'")


def test_another_endpoints_reply_goes_as_it_was(tmp_path: Path) -> None:
    other = recorded(
        1, path="/v1/tokenize?x=1", request=b'{"prompt":"a"}', splices=(), reply=b'{"tokens": [1]}'
    )
    with RecordedReplies([log_of(tmp_path, other)]) as replies:
        answer = replies.answer("POST", "/v1/tokenize", b'{"prompt": "a"}')
        assert answer == Answer(200, "application/json", b'{"tokens": [1]}')


def test_what_stands_before_a_tear_is_given_and_the_tear_is_named(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    writer.write([recorded(1, "first")])
    log, offset = Path(writer.position.path), writer.position.offset
    writer.write([recorded(2, "second")])
    writer.close()
    log.write_bytes(log.read_bytes()[: offset + 20])
    with RecordedReplies([log]) as replies:
        assert [content(replies.answer("POST", CHAT, chat_request())) for _ in range(2)] == ["first", "first"]
        [damage] = replies.damages
    assert damage.startswith(f"{log}: ")


def test_a_path_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="holds no trace log"):
        RecordedReplies([tmp_path])
    with pytest.raises(LogFormatError, match="does not exist"):
        RecordedReplies([tmp_path / "none"])


def test_the_facts_are_those_of_the_first_exchange(tmp_path: Path) -> None:
    with RecordedReplies([log_of(tmp_path, recorded(2), recorded(1))]) as replies:
        assert (replies.facts, replies.started_at) == (FACTS, 1001.0)
    with RecordedReplies([log_of(tmp_path / "none", recorded(1), facts=None)]) as replies:
        assert replies.facts is None
        assert content(replies.answer("POST", CHAT, chat_request())) == "4"


BODY = b'{"model":"m","n":1}'


@pytest.mark.parametrize(
    "same",
    [
        b'{"n": 1, "model": "m"}',
        b'{"model":"m","n":1,"stream":true,"stream_options":{},"logprobs":true,"top_logprobs":2}',
        b'{"model":"m","n":1,"return_meta_info":true,"return_of_the_future":1}',
    ],
)
def test_how_a_request_wants_to_be_answered_is_no_part_of_it(same: bytes) -> None:
    assert request_key("POST", "/v1/x?query=1", same) == request_key("POST", "/v1/x", BODY)


@pytest.mark.parametrize(
    "other", [b'{"model":"m","n":2}', b'{"model":"m"}', b'["model"]', b"", b"\xff", b"[" * 100_000]
)
def test_everything_else_is(other: bytes) -> None:
    assert request_key("POST", "/v1/x", other) != request_key("POST", "/v1/x", BODY)
    assert request_key("POST", "/v1/y", BODY) != request_key("GET", "/v1/y", BODY)
