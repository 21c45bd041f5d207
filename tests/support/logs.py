"""Exchanges answered by SGLang with a few visible ids, and real trace logs of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import chat_streams
from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.tracelog.records import Entry, Exchange, WeightReading
from turnstile.addon.tracelog.writer import LogWriter

FACTS: Mapping[str, Any] = {"kind": "sglang", "model_config": {"vocab_size": 1000}}


def answered_choice(index: int, prompt_ids: Sequence[Any], sampled_ids: Sequence[Any], **fields: Any) -> Any:
    """A choice; sampled id i has the logprob -(i + 1) / 8."""
    sampled = tuple((-(at + 1) / 8, token, f"<{token}>") for at, token in enumerate(sampled_ids))
    return choice(index, prompt_ids=tuple(prompt_ids), sampled=sampled, **fields)


def answered(
    number: int,
    prompt_ids: Sequence[Any],
    sampled_ids: Sequence[Any],
    *,
    request: Mapping[str, Any] | None = None,
    choice_fields: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Exchange:
    """A chat exchange with one choice; `fields` are the exchange's."""
    reply = completion(answered_choice(0, prompt_ids, sampled_ids, **(choice_fields or {})))
    return replied(number, reply, request=request, **fields)


def replied(
    number: int, reply: Mapping[str, Any], *, request: Mapping[str, Any] | None = None, **fields: Any
) -> Exchange:
    """A chat exchange with this reply."""
    asked = request or {"model": "tiny", "messages": [{"role": "user", "content": f"question {number}"}]}
    return exchange(number, **{"request": compact(asked), "reply": compact(reply)} | fields)


def stream_events(
    prompt_ids: Sequence[int], *sampled_ids: Sequence[int], finish_reason: str = "stop"
) -> list[bytes]:
    """What SGLang streams for one choice or more, an event an item.

    For each choice the role and an event a token; then how each finished; then the ids, the usage, [DONE].
    Logprobs are those of `answered_choice`.
    """
    chunks = []
    for index, ids in enumerate(sampled_ids):
        rows = answered_choice(index, prompt_ids, ids)["meta_info"]["output_token_logprobs"]
        chunks += [chat_streams.begun(index), *(chat_streams.token(index, row) for row in rows)]
    chunks += [chat_streams.finished(index, finish_reason) for index in range(len(sampled_ids))]
    chunks.append(chat_streams.sglext(input_ids=prompt_ids, output_ids=sampled_ids))
    chunks.append(chat_streams.usage(len(prompt_ids), sum(map(len, sampled_ids))))
    return [*map(chat_streams.event, chunks), chat_streams.DONE]


def streamed(number: int, events: Sequence[bytes], **fields: Any) -> Exchange:
    """A chat exchange that was answered by these events."""
    headers = (("content-type", "text/event-stream; charset=utf-8"),)
    asked = {"model": "tiny", "messages": [{"role": "user", "content": f"question {number}"}], "stream": True}
    usual = {"request": compact(asked), "reply": b"".join(events), "reply_headers": headers}
    return exchange(number, **usual | fields)


def weight_reading(weight_version: str, at: float) -> WeightReading:
    """A reading that took no time."""
    return WeightReading(weight_version=weight_version, asked_at=at, answered_at=at)


def write_log(directory: Path, *records: Entry, facts: Mapping[str, Any] = FACTS, close: bool = True) -> Path:
    """A log of these records in `directory`; gives its path."""
    writer = LogWriter(directory, program="test")
    writer.set_backend(facts)
    writer.write(records)
    path = Path(writer.position.path)
    if close:
        writer.close()
    return path
