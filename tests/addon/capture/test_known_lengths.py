import json
from typing import Any

from turnstile.addon.backends.usage import TokenCounts
from turnstile.addon.capture import known_lengths
from turnstile.addon.capture.known_lengths import KnownLengths, Opening, openings

USER, ASSISTANT, TOOL = ({"role": role, "content": "x"} for role in ("user", "assistant", "tool"))


def of(*messages: dict[str, Any], **fields: Any) -> list[Opening]:
    return openings(json.dumps({"messages": messages} | fields).encode())


def test_a_prompt_is_at_least_as_long_as_one_that_it_goes_on_from() -> None:
    known = KnownLengths()
    known.note("r", of(USER)[-1], TokenCounts(10, 5))
    assert known.at_least("r", of(USER)) == 10
    assert known.at_least("r", of(USER, ASSISTANT, TOOL)) == 15
    assert known.at_least("r", of(USER, TOOL)) == 10


def test_a_prompt_of_its_own_owes_nothing() -> None:
    known = KnownLengths()
    known.note("r", of(USER, ASSISTANT, USER)[-1], TokenCounts(100, 5))
    for other in (of(USER), of(TOOL, ASSISTANT, USER), of(USER, ASSISTANT, USER, tools=[{}]), []):
        assert known.at_least("r", other) == 0
    assert known.at_least("other", of(USER, ASSISTANT, USER)) == 0


def test_without_a_named_rollout_the_answer_may_be_another_ones() -> None:
    known = KnownLengths()
    known.note(None, of(USER)[-1], TokenCounts(10, 5))
    assert known.at_least(None, of(USER, ASSISTANT, TOOL)) == 10


def test_what_is_no_chat_request_has_no_openings() -> None:
    for body in (b"", b"[]", b"{}", b'{"messages": 1}', b'{"messages": [}'):
        assert openings(body) == []
    assert len(openings(b'{"messages": [1, "x", {}]}')) == 3


def test_the_exchanges_noted_last_are_remembered() -> None:
    known = KnownLengths()
    for number in range(known_lengths.REMEMBERED + 1):
        known.note(str(number), of(USER)[-1], TokenCounts(1, 0))
    assert known.at_least("0", of(USER)) == 0
    assert known.at_least("1", of(USER)) == 1
