"""One choice of a chat stream, put together from its chunks."""

from dataclasses import dataclass, field
from typing import Any

from turnstile.addon.backends.places import inner_object

_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")  # of a delta, as pieces of one text each
_OF_CALL = ("id", "type", "index")  # told once


@dataclass(slots=True)
class StreamedChoice:
    """What its chunks have told so far."""

    finish_reason: Any = None
    rows: list[Any] | None = None  # of OpenAI's logprobs; None: none were told
    message: dict[str, Any] = field(default_factory=lambda: {"role": "assistant"})
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)  # by index

    def add(self, fields: dict[str, Any]) -> None:
        """Takes in what a chunk has of this choice."""
        if fields.get("finish_reason") is not None:
            self.finish_reason = fields["finish_reason"]
        if fields.get("logprobs") is not None:
            self._add_logprobs(fields["logprobs"])
        delta = inner_object(fields, "delta")
        for name in _TEXTS:
            if isinstance(delta.get(name), str):
                self.message[name] = self.message.get(name, "") + delta[name]
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._add_call(call)

    def as_fields(self, index: int) -> dict[str, Any]:
        """The choice as a whole reply has it."""
        calls = {"tool_calls": list(self.calls.values())} if self.calls else {}
        return {
            "index": index,
            # The last chunk of an aborted choice may hold the whole text once more (SGLang).
            "message": None if self.finish_reason == "abort" else self.message | calls,
            "logprobs": None if self.rows is None else {"content": self.rows},
            "finish_reason": self.finish_reason,
        }

    def _add_logprobs(self, logprobs: Any) -> None:
        content = logprobs.get("content") if isinstance(logprobs, dict) else logprobs
        self.rows = self.rows or []
        self.rows += content if isinstance(content, list) else [] if content is None else [content]

    def _add_call(self, call: dict[str, Any]) -> None:
        index = call.get("index")
        new: dict[str, Any] = {"function": {"name": None, "arguments": ""}}
        so_far = self.calls.setdefault(index if type(index) is int else 0, new)
        so_far |= {name: call[name] for name in _OF_CALL if call.get(name) is not None}
        told, function = so_far["function"], inner_object(call, "function")
        told["name"] = told["name"] or function.get("name")
        if isinstance(function.get("arguments"), str):
            told["arguments"] += function["arguments"]
