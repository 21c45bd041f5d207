"""Reads a live chat stream into the same plain facts as a whole reply.

The chunks are folded into the reply that they tell of. Ids and logprobs come from where the server reports
them, never from the text, which an abort may repeat. Where each fact lies: SGLang's serving_chat
(`_generate_chat_stream`, 0.5.20 to 0.5.23).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnstile.addon.backends.chat_events import CHUNKS, ERROR, is_done
from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.long_spans import cut_prompts_and_logprobs, uncut
from turnstile.addon.backends.places import inner_object
from turnstile.addon.backends.reading import ChoiceReading, choice_readings
from turnstile.addon.backends.sse import EventSplitter
from turnstile.addon.backends.streamed_choice import StreamedChoice


@dataclass(frozen=True, slots=True)
class StreamReading:
    """What a chat stream tells, however far it came."""

    choices: tuple[ChoiceReading, ...]
    """By index. Of one that was cut off `finish_reason` is None and `sampled_ids` empty."""
    done_seen: bool  # whether [DONE] came
    error: str | None = None  # what an error event under status 200 says


def read_chat_stream(reply: bytes) -> StreamReading:
    """What the events of a chat stream say. Those after [DONE], and an unfinished one, are passed over.

    Raises UndecodableReply when an event is no JSON object, or two contradict each other about ids.
    """
    told, done_seen = _Told(), False
    for number, event in enumerate(EventSplitter().feed(reply)):
        if is_done(event):
            done_seen = True
            break
        if event.data and event.event in CHUNKS:
            chunk, long_values = _parsed(event.data, number)
            told.add(chunk, long_values, is_error=event.event == ERROR)
    return StreamReading(tuple(told.readings()), done_seen, told.error)


@dataclass(slots=True)
class _Told:
    """What has been read of a stream so far."""

    choices: dict[int, StreamedChoice] = field(default_factory=dict)  # in the order in which they came
    sglext: dict[str, Any] = field(default_factory=dict)
    long_values: Mapping[str, bytes] = field(default_factory=dict)  # see long_spans; the prompt ids
    usage: Any = None
    error: str | None = None

    def add(self, chunk: dict[str, Any], long_values: Mapping[str, bytes], *, is_error: bool) -> None:
        choices = chunk.get("choices")
        if self.error is None and (is_error or chunk.get("error") is not None):
            self.error = _message(chunk.get("error", chunk))
        for fields in choices if isinstance(choices, list) else ():
            if isinstance(fields, dict):
                index = fields.get("index")
                self.choices.setdefault(index if type(index) is int else 0, StreamedChoice()).add(fields)
        if not choices and chunk.get("usage") is not None:  # beside a choice it tells of that one only
            self.usage = chunk["usage"]
        for name, value in inner_object(chunk, "sglext").items():
            if self.sglext.setdefault(name, value) != value:
                raise UndecodableReply(f"the stream tells {name} twice, and not the same")
        if long_values and (self.long_values or long_values) != long_values:
            raise UndecodableReply("the stream tells the prompt ids twice, and not the same")
        self.long_values = long_values or self.long_values

    def readings(self) -> list[ChoiceReading]:
        output_ids = self.sglext.get("output_ids")
        count = len(output_ids) if isinstance(output_ids, list) else 0
        choices = {
            index: self.choices.get(index, StreamedChoice()) for index in {*self.choices, *range(count)}
        }
        if not choices:
            return []
        fields = {index: choices[index].as_fields(index) for index in sorted(choices)}
        sglext = dict(self.sglext)
        routing = sglext.pop("routed_experts", None)
        if (first := next(iter(self.choices), None)) is not None and choices[first].finish_reason != "abort":
            # SGLang gives those of one choice only: of the first to come that has any.
            fields[first]["sgl_ext"] = {"routed_experts": routing}
        reply = {"choices": [*fields.values()], "usage": self.usage, "sglext": sglext}
        return choice_readings(reply, self.long_values)


def _parsed(data: bytes, number: int) -> tuple[dict[str, Any], Mapping[str, bytes]]:
    """The event's object, its prompt ids still text where they can be."""
    may_cut = b'"input_ids"' in data and b'"logprobs"' not in data
    for cut in (cut_prompts_and_logprobs(data) if may_cut else uncut(data), uncut(data)):
        try:
            chunk = loads(cut.rest).value
        except ValueError as error:
            reason = str(error)
            continue
        if isinstance(chunk, dict):
            return chunk, cut.values
        reason = f"it is a JSON {type(chunk).__name__}"
    raise UndecodableReply(f"event {number} of the stream is no JSON object: {reason}")


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else "an error without a message"
