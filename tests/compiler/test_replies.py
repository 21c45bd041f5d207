from typing import Any

import pytest

from tests.support.chat import completion
from tests.support.exchanges import exchange
from tests.support.logs import replied
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
    assert not was_delivered(exchange(1, delivered=False))
    assert not was_delivered(exchange(1, outcome="client_left"))
