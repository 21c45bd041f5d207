"""Exchanges answered by SGLang with a few visible ids, and real trace logs of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.tracelog.records import Exchange, Reward
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


def write_log(
    directory: Path, *records: Exchange | Reward, facts: Mapping[str, Any] = FACTS, close: bool = True
) -> Path:
    """A log of these records in `directory`; gives its path."""
    writer = LogWriter(directory, program="test")
    writer.set_backend(facts)
    writer.write(records)
    path = Path(writer.position.path)
    if close:
        writer.close()
    return path
