"""What a captured flow says of itself in mitmproxy's lists: a comment, a mark, metadata to filter by.

    comment    task-7/a  12+34 tokens  stop
    marked     where something is missing or went wrong; the comment says what
    metadata   `~meta "turnstile_group: task-7"`, `~meta turnstile_missing`

A comment or mark that somebody else has made stays.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from mitmproxy.flow import Flow
from mitmproxy.http import HTTPFlow

from turnstile.addon.backends.glance import Glance, glance
from turnstile.addon.tracelog.records import Exchange

EXCHANGE = "turnstile_exchange"
"""The key of the exchange's id, which every captured flow has."""

IMAGE_TOKEN = "turnstile_image_token"
"""The key of the id that stands for images in prompts, where it is known."""

LOG = "turnstile_log"
"""The key of the trace log's path in a flow that was made from one: its response is the backend's own."""

MARK = ":warning:"
_IMAGE_TOKEN_KEYS = ("image_token_id", "image_token_index", "img_context_token_id")
_ERROR_LENGTH = 160


def annotate(flow: HTTPFlow, exchange: Exchange, model_config: Mapping[str, Any] | None) -> None:
    """Has the flow tell of its exchange; `model_config` is that of the model that answered, if known."""
    seen = glance(exchange.reply)
    problems = _problems(exchange, seen)
    tokens, finish = _tokens(seen), ",".join(seen.finish_reasons)
    whose = "/".join(filter(None, (exchange.group_id, exchange.rollout_id)))
    flow.comment = flow.comment or "  ".join(filter(None, (whose, tokens, finish, *problems)))
    if problems or "abort" in seen.finish_reasons:
        flow.marked = flow.marked or MARK
    known = {
        EXCHANGE: exchange.exchange_id,
        "turnstile_group": exchange.group_id,
        "turnstile_rollout": exchange.rollout_id,
        "turnstile_outcome": exchange.outcome,
        "turnstile_finish": finish,
        "turnstile_missing": ", ".join(exchange.missing),
        "turnstile_problems": "; ".join(problems),
        IMAGE_TOKEN: _image_token(model_config),
    }
    flow.metadata |= {name: value for name, value in known.items() if value not in (None, "")}


def is_annotated(flow: Flow | None) -> TypeGuard[HTTPFlow]:
    """Whether the flow tells of a captured exchange."""
    return isinstance(flow, HTTPFlow) and EXCHANGE in flow.metadata


def note_unrecorded(flow: HTTPFlow, problem: str) -> None:
    """Has a flow say that its exchange is not in the log."""
    said = f"not recorded: {problem}"[:_ERROR_LENGTH]
    flow.comment = "  ".join(filter(None, (flow.comment, said)))
    flow.marked = flow.marked or MARK
    flow.metadata["turnstile_problems"] = said


def _tokens(seen: Glance) -> str:
    if seen.prompt_tokens is None and seen.sampled_tokens is None:
        return ""
    numbers = ("?" if number is None else number for number in (seen.prompt_tokens, seen.sampled_tokens))
    return "{}+{} tokens".format(*numbers)


def _problems(exchange: Exchange, seen: Glance) -> list[str]:
    problems: list[str] = []
    if exchange.outcome != "complete":
        problems.append(exchange.outcome)
    elif exchange.status != 200:
        problems.append(f"HTTP {exchange.status}")
    elif exchange.missing:
        problems.append(f"missing {', '.join(exchange.missing)}")
    elif not seen.finish_reasons and not _is_encoded(exchange):
        problems.append("no finish reason")
    if exchange.outcome == "complete" and not exchange.delivered:
        problems.append("undelivered")
    if exchange.error:
        problems.append(exchange.error[:_ERROR_LENGTH])
    return problems


def _is_encoded(exchange: Exchange) -> bool:
    return any(
        name.lower() == "content-encoding" and value != "identity" for name, value in exchange.reply_headers
    )


def _image_token(model_config: Mapping[str, Any] | None) -> int | None:
    """The id that stands for images in a prompt, where the model's config tells it."""
    config = model_config or {}
    return next((config[key] for key in _IMAGE_TOKEN_KEYS if type(config.get(key)) is int), None)
