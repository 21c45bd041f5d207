"""What a harness changed in the conversation that it resent, found in the parsed JSON of two exchanges."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turnstile.compiler.explain.said import Said
from turnstile.compiler.wording import reply_digest

What = Literal["system", "thinking", "tool_call", "tool_call_ids", "image", "answer", "message", "missing"]

_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Change:
    """The first message that was not resent as it was."""

    index: int
    what: What
    role: str

    def __str__(self) -> str:
        return f"message {self.index} ({self.role}) {_WORDS[self.what]}"


_WORDS: Mapping[What, str] = {
    "system": "is another",
    "thinking": "is resent without its reasoning",
    "tool_call": "is resent with the arguments of a tool call in another spelling",
    "tool_call_ids": "is resent with other ids of its tool calls",
    "image": "has another image",
    "answer": "is another answer than came back",
    "message": "is another",
    "missing": "is not there any more",
}


def change_in_prompt(earlier: Said, later: Said) -> Change | None:
    """The first of the earlier request's messages that the later one has not got in its place."""
    return next(filter(None, (_change(at, earlier, later) for at in range(len(earlier.messages)))), None)


def change_of_answer(earlier: Said, later: Said) -> Change | None:
    """How the later request has the earlier answer in its place."""
    return _change(len(earlier.messages), earlier, later)


def resends(earlier: Said, later: Said) -> bool:
    """Whether the later request goes on the earlier one, changed in places.

    It has the earlier answer in its place, and before it at least one message that is the same, system
    prompts aside: an answer alone may be a word that many conversations have.
    """
    places = range(len(earlier.messages))
    same = (earlier.messages[at] for at in places if _change(at, earlier, later) is None)
    return change_of_answer(earlier, later) is None and any(not _is_system(message) for message in same)


def _change(at: int, earlier: Said, later: Said) -> Change | None:
    expected = earlier.history[at]
    if at >= len(later.messages):
        return Change(at, "missing", _role(expected))
    found = later.messages[at]
    if expected == found:
        return None
    if _role(expected) == _role(found) == "assistant":
        what = _change_of_assistant(expected, found, is_answer=at == len(earlier.messages))
        return Change(at, what, "assistant") if what else None
    if _is_system(expected) and _is_system(found):
        return Change(at, "system", _role(found))
    is_image = _role(expected) == _role(found) and _without_images(expected) == _without_images(found)
    if is_image and _images(expected) == _images(found):
        return None
    return Change(at, "image" if is_image else "message", _role(expected))


def _change_of_assistant(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, is_answer: bool
) -> What | None:
    if reply_digest(expected) == reply_digest(found):
        return None
    if _reasoning(expected) != _reasoning(found) or _thinking(expected) != _thinking(found):
        stripped = not _reasoning(found) and not _thinking(found)
        if stripped and _said(expected) == _said(found) and _calls(expected) == _calls(found):
            return "thinking"
    elif _said(expected) == _said(found):
        one, other = _calls(expected), _calls(found)
        if [call[1:] for call in one] == [call[1:] for call in other]:
            return "tool_call" if one == other else "tool_call_ids"
    return "answer" if is_answer else "message"


def _reasoning(message: Mapping[str, Any]) -> Any:
    return message.get("reasoning_content") or message.get("reasoning") or ""


def _thinking(message: Mapping[str, Any]) -> list[str]:
    """The blocks of thinking that stand in the text itself."""
    return _THINKING.findall(_text(message))


def _said(message: Mapping[str, Any]) -> str:
    return _THINKING.sub("", _text(message)).strip()


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text", part)) if isinstance(part, dict) else str(part) for part in parts)


def _calls(message: Mapping[str, Any]) -> list[tuple[Any, Any, Any]]:
    """(id, name, what the arguments mean) of every tool call."""
    calls = message.get("tool_calls")
    functions = [
        (call.get("id"), call["function"])
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return [(id_, function.get("name"), _meant(function.get("arguments"))) for id_, function in functions]


def _meant(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else "no role"


def _is_system(message: Any) -> bool:
    return _role(message) in ("system", "developer")


def _parts(message: Any) -> list[Any]:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else [content]


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and "image" in str(part.get("type"))


def _without_images(message: Any) -> Any:
    rest = {name: message[name] for name in message if name != "content"}
    return rest, ["image" if _is_image(part) else part for part in _parts(message)]


def _images(message: Any) -> list[str]:
    """Each image as its base64, however the URL around it is spelled; of other URLs the whole."""
    texts = (json.dumps(part.get("image_url", part)) for part in _parts(message) if _is_image(part))
    spellings = (re.search(r"base64,([^\"]*)", text, re.IGNORECASE) or text for text in texts)
    return [
        re.sub(r"\\[nrt]|[\s=]", "", found[1]) if isinstance(found, re.Match) else found
        for found in spellings
    ]
