"""The events of a chat stream as JSON objects, for comparison."""

import copy
import json
from typing import Any

Event = dict[str, Any]

_TEXTS = frozenset({"content", "reasoning_content"})


def for_harness(stream: bytes) -> list[Event]:
    """Of a stream as the server sent it, what is for a harness that asked for nothing but a stream."""
    sent = [json.loads(event[6:]) for event in stream.split(b"\n\n") if event.startswith(b"data: {")]
    return [_without_logprobs(event) for event in sent if event["choices"]]


def comparable(events: list[Event]) -> list[Event]:
    """The events that say something, without what is another each time that the server is asked.

    Where a parser holds text back, the server has chunks for logprobs alone. They are handed on, empty.
    """
    same = [copy.deepcopy(event) for event in events if _says_something(event)]
    for event in same:
        del event["id"], event["created"]
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls") or ():
                call["id"] = call["id"] is not None
    return same


def said(events: list[Event]) -> list[Event]:
    """What a chat's events say, one after the other, text that follows text joined.

    How many tokens the server puts into a chunk depends on how busy it is.
    """
    told: list[Event] = []
    for event in comparable(events):
        (choice,) = event["choices"]
        piece = {"finish": choice["finish_reason"], "matched": choice.get("matched_stop"), **choice["delta"]}
        piece = {name: value for name, value in piece.items() if value is not None}
        if not told or not _joined(told[-1], piece):
            told.append(piece)
    return told


def _joined(last: Event, piece: Event) -> bool:
    """Adds the piece to the one before where it goes on with its text or its call."""
    if last.keys() == piece.keys() and len(piece) == 1 and piece.keys() <= _TEXTS:
        (name,) = piece
        last[name] += piece[name]
        return True
    if last.keys() == piece.keys() == {"tool_calls"}:
        ((call,), (more,)) = last["tool_calls"], piece["tool_calls"]
        if more["function"]["name"] is None and more["index"] == call["index"]:
            call["function"]["arguments"] += more["function"]["arguments"]
            return True
    return False


def _says_something(event: Event) -> bool:
    (choice,) = event["choices"]
    has_delta = any(value is not None for value in choice["delta"].values())
    return has_delta or choice["finish_reason"] is not None


def _without_logprobs(event: Event) -> Event:
    return {**event, "choices": [{**choice, "logprobs": None} for choice in event["choices"]]}
