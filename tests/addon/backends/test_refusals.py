from typing import Any

import pytest

from tests.support.chat import chat_request, choice, compact, completion
from tests.support.moe_server import refusal
from turnstile.addon.backends.asking import Asking, ask_chat
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.refusals import refuses_start

SGLANG = BackendFacts(kind="sglang", version=(0, 5, 23))
MESSAGE = "recv_req.routed_experts_start_len=41 is higher than the number of input tokens"


def asking(start: int = 41) -> Asking:
    return ask_chat(chat_request(), SGLANG, moe="full", routing_start=start)


def aborted(reason: Any) -> bytes:
    return compact(completion(choice(finish_reason="abort", meta_info={"finish_reason": reason})))


def test_a_start_beyond_the_prompt_is_refused_by_status_400() -> None:
    assert refuses_start(refusal(41, 12), 400, asking())


def test_a_start_that_was_not_asked_for_is_not_what_was_refused() -> None:
    assert not refuses_start(refusal(41, 12), 400, asking(start=0))


def test_other_errors_are_the_harnesss() -> None:
    assert not refuses_start(b'{"object": "error", "message": "too long", "code": 400}', 400, asking())
    assert not refuses_start(refusal(41, 12), 500, asking())


def test_a_build_that_hands_the_abort_on_refuses_too() -> None:
    assert refuses_start(aborted({"type": "abort", "message": MESSAGE}), 200, asking())


@pytest.mark.parametrize(
    "reply",
    [
        aborted({"type": "abort", "message": "out of memory"}),
        aborted({"type": "stop", "message": MESSAGE}),
        aborted(None),
        compact(completion(choice(message={"content": MESSAGE}))),
        compact({"choices": [MESSAGE]}),
        compact({"choices": MESSAGE}),
        compact([MESSAGE]),
        MESSAGE.encode(),
    ],
)
def test_an_answer_that_speaks_of_the_field_is_an_answer(reply: bytes) -> None:
    assert not refuses_start(reply, 200, asking())
