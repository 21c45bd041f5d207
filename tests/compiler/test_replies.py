import gzip
from typing import Any

import pytest

from tests.support.chat import completion
from tests.support.exchanges import exchange
from tests.support.logs import replied, stream_events, streamed
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.replies import choices_of, was_delivered

PLACE = Place("e1", None, "a.tslog", 64)


def test_a_whole_reply_has_its_choices() -> None:
    choices, findings = choices_of(replied(1, completion()), PLACE)
    assert ([choice.finish_reason for choice in choices], findings) == (["stop"], [])


def test_a_query_behind_the_path_is_no_hindrance() -> None:
    choices, _ = choices_of(replied(1, completion(), path="/v1/chat/completions?x=1"), PLACE)
    assert len(choices) == 1


@pytest.mark.parametrize(
    ("fields", "kind", "severity", "message"),
    [
        (
            {"status": 400, "reply": b'{"message":"secret"}'},
            "upstream_error",
            "error",
            "the backend answered with status 400, expected 200",
        ),
        (
            {"outcome": "backend_failed", "status": None, "error": "connection refused"},
            "upstream_error",
            "error",
            "the backend gave no whole reply: connection refused",
        ),
        (
            {"outcome": "backend_failed", "reply": b'{"choices":['},
            "upstream_error",
            "error",
            "the backend gave no whole reply",
        ),
        (
            {"outcome": "refused", "status": None, "reply": b"", "error": "no remote images"},
            "upstream_error",
            "warning",
            "the proxy refused the request and forwarded nothing: no remote images",
        ),
        (
            {"outcome": "client_left", "status": None, "reply": b""},
            "undelivered",
            "error",
            "the harness left before the reply was whole; nothing of it had come",
        ),
        (
            {"outcome": "client_left", "reply": b'{"cho'},
            "undelivered",
            "error",
            "the harness left before the reply was whole; 5 bytes of it had come",
        ),
        (
            {"outcome": "interrupted", "status": None, "reply": b""},
            "aborted",
            "error",
            "the proxy was shut down before the reply was whole; nothing of it had come",
        ),
        ({"reply": b""}, "undecodable", "error", "the reply is empty"),
        (
            {"path": "/v1/completions"},
            "not_compiled",
            "error",
            "/v1/completions is recorded, but only /v1/chat/completions is compiled",
        ),
    ],
)
def test_without_a_whole_reply_there_are_no_choices(
    fields: dict[str, Any], kind: str, severity: str, message: str
) -> None:
    choices, findings = choices_of(exchange(1, **fields), PLACE)
    assert choices == []
    assert [(finding.kind, finding.severity, finding.message) for finding in findings] == [
        (kind, severity, message)
    ]


@pytest.mark.parametrize("outcome", ["client_left", "interrupted"])
def test_a_whole_reply_is_read_although_nobody_waited_for_it(outcome: str) -> None:
    left = replied(1, completion(), outcome=outcome, delivered=False)
    choices, findings = choices_of(left, PLACE)
    assert (len(choices), findings, was_delivered(left)) == (1, [], False)


@pytest.mark.parametrize("reply", [b"no JSON", b"[]", b'{"error":{}}', b'data: {"choices":[]}\n\n'])
def test_a_reply_that_cannot_be_read_is_a_finding(reply: bytes) -> None:
    choices, [finding] = choices_of(exchange(1, reply=reply), PLACE)
    assert (choices, finding.kind, finding.severity) == ([], "undecodable", "error")
    assert finding.message.startswith("the reply cannot be read: ")


def test_an_unknown_content_encoding_is_a_finding() -> None:
    strange = exchange(1, reply=b"?", reply_headers=(("content-encoding", "br"),))
    assert choices_of(strange, PLACE) == (
        [],
        [
            Finding(
                "undecodable",
                "error",
                "e1",
                None,
                "a.tslog",
                64,
                "the reply cannot be read: content-encoding 'br' cannot be decoded here "
                "(known: gzip, deflate, zstd)",
            )
        ],
    )


def test_a_reply_counts_as_delivered_only_when_the_harness_got_it() -> None:
    assert was_delivered(exchange(1))
    assert was_delivered(exchange(1, outcome="backend_failed"))
    assert not was_delivered(exchange(1, delivered=False))
    assert not was_delivered(exchange(1, outcome="client_left"))


WHOLE = stream_events([1, 2], [7, 8])
*BEFORE_DONE, DONE = WHOLE
SPOKEN, FINISH, IDS = WHOLE[:3], WHOLE[3], WHOLE[4]
SAID_BY_NOBODY = b'data: {"choices":[]}\n\n'

Read = tuple[list[list[int]], list[tuple[str, str, int | None, str]]]


def read_stream(events: list[bytes], **fields: Any) -> Read:
    """The sampled ids of the choices that are taken; (kind, severity, choice, message) of the findings."""
    choices, findings = choices_of(streamed(1, events, **fields), PLACE)
    return [choice.sampled_ids["sglext.output_ids"] for choice in choices], [
        (finding.kind, finding.severity, finding.choice, finding.message) for finding in findings
    ]


def test_a_whole_stream_has_its_choices() -> None:
    assert read_stream(WHOLE) == ([[7, 8]], [])
    assert read_stream(stream_events([1, 2], [7, 8], [9])) == ([[7, 8], [9]], [])


@pytest.mark.parametrize(
    "content_type", ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream ;x=y"]
)
def test_a_stream_is_known_by_its_content_type(content_type: str) -> None:
    assert read_stream(WHOLE, reply_headers=(("Content-Type", content_type),)) == ([[7, 8]], [])


def test_a_compressed_stream_is_read() -> None:
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    recorded = streamed(1, [gzip.compress(b"".join(WHOLE))], reply_headers=headers)
    choices, findings = choices_of(recorded, PLACE)
    assert ([choice.finish_reason for choice in choices], findings) == (["stop"], [])


@pytest.mark.parametrize(
    ("events", "absent"),
    [
        ([], "a finish_reason and without [DONE]"),
        ([b": ping\n\n"], "a finish_reason and without [DONE]"),
        ([DONE], "a finish_reason"),
        ([SAID_BY_NOBODY, DONE], "a finish_reason"),
        (SPOKEN, "a finish_reason and without [DONE]"),
        ([*SPOKEN, FINISH[:-1]], "a finish_reason and without [DONE]"),
        ([*SPOKEN, FINISH], "[DONE]"),
        ([*SPOKEN, FINISH, IDS[:-1]], "[DONE]"),
        ([*SPOKEN, DONE], "a finish_reason"),
    ],
)
def test_a_stream_cut_off_before_its_ids_is_left_out(events: list[bytes], absent: str) -> None:
    message = f"the stream ended without {absent}, before its token ids had come"
    assert read_stream(events) == ([], [("truncated_stream", "error", None, message)])


@pytest.mark.parametrize(
    ("events", "absent"),
    [
        (BEFORE_DONE, "[DONE]"),
        ([*SPOKEN, FINISH, IDS], "[DONE]"),
        ([*BEFORE_DONE, b"data: [D"], "[DONE]"),
        ([*SPOKEN, IDS, DONE], "a finish_reason"),
        ([*SPOKEN, IDS], "a finish_reason and without [DONE]"),
    ],
)
def test_a_stream_whose_ids_came_is_kept_however_it_ended(events: list[bytes], absent: str) -> None:
    message = f"the stream ended without {absent}; its token ids had come, and it is kept"
    assert read_stream(events) == ([[7, 8]], [("truncated_stream", "warning", None, message)])


def test_a_stream_that_ended_without_being_given_ids_has_its_choices() -> None:
    choices, findings = choices_of(streamed(1, [*SPOKEN, FINISH, DONE]), PLACE)
    assert ([choice.sampled_ids for choice in choices], findings) == ([{}], [])


def test_a_choice_that_did_not_end_spoils_no_other() -> None:
    both = stream_events([1, 2], [7], [8])
    ids = stream_events([1, 2], [7])[-3:]
    assert read_stream([*both[:4], *ids])[1] == [
        (
            "truncated_stream",
            "error",
            1,
            "the stream ended without a finish_reason, before its token ids had come",
        ),
        (
            "truncated_stream",
            "warning",
            None,
            "the stream ended without a finish_reason; its token ids had come, and it is kept",
        ),
    ]


@pytest.mark.parametrize(
    ("outcome", "kind", "message"),
    [
        ("backend_failed", "upstream_error", "the backend gave no whole reply: connection lost"),
        (
            "client_left",
            "undelivered",
            "the harness left before the reply was whole; {} bytes of it had come",
        ),
        (
            "interrupted",
            "aborted",
            "the proxy was shut down before the reply was whole; {} bytes of it had come",
        ),
    ],
)
def test_a_stream_that_somebody_broke_off_says_who(outcome: str, kind: str, message: str) -> None:
    error = "connection lost" if outcome == "backend_failed" else None
    for events in SPOKEN, [*SPOKEN, FINISH], [*SPOKEN, b"data: no JSON\n\n"]:
        size = sum(map(len, events))
        found = read_stream(events, outcome=outcome, error=error)
        assert found == ([], [(kind, "error", None, message.format(size))])


@pytest.mark.parametrize("outcome", ["client_left", "interrupted"])
def test_a_stream_broken_off_behind_its_ids_is_kept(outcome: str) -> None:
    for events in [*SPOKEN, FINISH, IDS], BEFORE_DONE, WHOLE:
        assert read_stream(events, outcome=outcome) == ([[7, 8]], [])


def test_a_backend_that_failed_behind_the_ids_is_named() -> None:
    message = "the stream ended without [DONE] (connection lost); its token ids had come, and it is kept"
    found = read_stream(BEFORE_DONE, outcome="backend_failed", error="connection lost")
    assert found == ([[7, 8]], [("truncated_stream", "warning", None, message)])


@pytest.mark.parametrize("before", [[], SPOKEN, [*SPOKEN, FINISH]])
def test_an_error_event_leaves_the_stream_out(before: list[bytes]) -> None:
    secret = b'data: {"error":{"object":"error","message":"secret","type":"BAD_REQUEST","code":400}}\n\n'
    message = "the backend ended the stream with an error event"
    assert read_stream([*before, secret, DONE]) == ([], [("upstream_error", "error", None, message)])


def test_a_stream_that_cannot_be_read_is_a_finding() -> None:
    ids, [(kind, severity, choice, message)] = read_stream([*SPOKEN, b"data: no JSON\n\n", DONE])
    assert (ids, kind, severity, choice) == ([], "undecodable", "error", None)
    assert message.startswith("the reply cannot be read: ")
