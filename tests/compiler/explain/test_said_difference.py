from typing import Any

import pytest

from turnstile.compiler.explain.said import Said
from turnstile.compiler.explain.said_difference import change_in_prompt, change_of_answer, resends

SYSTEM = {"role": "system", "content": "You are brief."}
USER = {"role": "user", "content": "Count."}
MORE = {"role": "user", "content": "Go on."}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "4", "reasoning_content": "after 3"}


def call(arguments: str, id_: str = "call_1") -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": id_, "type": "function", "function": function}],
    }


def pictured(*urls: str) -> dict[str, Any]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": "user", "content": [*images, {"type": "text", "text": "What?"}]}


def changed(expected: Any, found: Any) -> str | None:
    change = change_in_prompt(Said((expected,)), Said((found, MORE)))
    return change.what if change is not None else None


@pytest.mark.parametrize(
    ("expected", "found", "what"),
    [
        (USER, USER, None),
        (USER, MORE, "message"),
        (SYSTEM, SYSTEM | {"content": "You are long."}, "system"),
        (SYSTEM, USER, "message"),
        (ANSWER, {"role": "assistant", "content": "4"}, "thinking"),
        (ANSWER, {"role": "assistant", "content": "4", "reasoning_content": "after 2"}, "message"),
        (ANSWER, {"role": "assistant", "content": "5"}, "message"),
        (ANSWER | {"reasoning_content": None}, {"role": "assistant", "content": "4", "name": "x"}, None),
        (
            {"role": "assistant", "content": "<think>after 3</think>\n\n4"},
            {"role": "assistant", "content": "4"},
            "thinking",
        ),
        (call('{"a":1}'), call('{"a": 1}'), "tool_call"),
        (call('{"a":1}'), call('{"a": 2}'), "message"),
        (call('{"a":1}'), call('{"a":1}', "call_2"), "tool_call_ids"),
        (pictured("data:image/png;base64,AA=="), pictured("data:image/png;base64,BB=="), "image"),
        (pictured("data:image/png;base64,AA=="), pictured("data:image/jpeg;BASE64,A\nA"), None),
        (pictured("data:image/png;base64,AA=="), pictured(), "message"),
    ],
)
def test_a_message_that_was_changed_says_how(expected: Any, found: Any, what: str | None) -> None:
    assert changed(expected, found) == what


def test_the_first_change_is_told_with_its_place() -> None:
    earlier, later = Said((SYSTEM, USER, MORE), answer=ANSWER), Said((SYSTEM, MORE, USER))
    assert str(change_in_prompt(earlier, later)) == "message 1 (user) is another"


def test_messages_that_are_gone_are_missing() -> None:
    assert (
        str(change_in_prompt(Said((USER, MORE)), Said((USER,)))) == "message 1 (user) is not there any more"
    )


def test_an_answer_is_compared_with_what_stands_in_its_place() -> None:
    earlier = Said((USER,), answer=ANSWER)
    assert change_of_answer(earlier, Said((USER, ANSWER, MORE))) is None
    change = change_of_answer(earlier, Said((USER, ANSWER | {"content": "5"}, MORE)))
    assert str(change) == "message 1 (assistant) is another answer than came back"


def test_an_answer_alone_does_not_show_that_a_conversation_goes_on() -> None:
    earlier = Said((SYSTEM, USER), answer=ANSWER)
    assert resends(earlier, Said(({"role": "system", "content": "Else."}, USER, ANSWER, MORE)))
    assert not resends(earlier, Said((SYSTEM, MORE, ANSWER, MORE)))
    assert not resends(earlier, Said((SYSTEM, USER, USER, ANSWER)))


def test_what_is_no_message_is_told_too() -> None:
    assert str(change_in_prompt(Said((USER,)), Said((7,)))) == "message 0 (user) is another"
    assert change_in_prompt(Said((7,)), Said((7,))) is None
