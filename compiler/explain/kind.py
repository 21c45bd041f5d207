"""The kinds of splits, and what each means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "routing_changed",
    "image_changed",
    "retry",
    "sibling",
    "retokenized",
    "tools_changed",
    "template_options_changed",
    "system_prompt_changed",
    "thinking_stripped",
    "tool_call_reprinted",
    "history_edited",
    "branch",
    "template_marker",
    "new_prompt",
    "unknown",
]

MEANINGS: Mapping[str, str] = {
    "routing_changed": "the same tokens, routed to other experts",
    "image_changed": "another picture",
    "retry": "the prompt of a turn broken off or never delivered",
    "sibling": "another sample of the same prompt",
    "retokenized": "the same text in other tokens",
    "tools_changed": "other tools",
    "template_options_changed": "other options for the chat template",
    "system_prompt_changed": "another system prompt",
    "thinking_stripped": "an answer's reasoning is not in the history",
    "tool_call_reprinted": "a tool call's JSON written otherwise",
    "history_edited": "an earlier message or answer is not what it was",
    "branch": "another message after the same beginning",
    "template_marker": "no message changed, and the template writes another text",
    "new_prompt": "nothing that was sampled is shared or resent",
    "unknown": "nothing of this can be shown",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A kind, and the fact that shows it, in words without a piece of any text."""

    kind: Kind
    fact: str
