"""What a captured flow says of itself in mitmproxy's lists: a comment, a mark, metadata to filter by.

    comment    task-7/a  turn 2  12+34 tokens  stop  split: retokenized
    marked     where something is missing or went wrong, or a rollout did not go on; the comment says what
    metadata   `~meta "turnstile_group: task-7"`, `~meta turnstile_split`

The comment is made of the metadata. One that somebody else has made stays, and so does a mark.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from mitmproxy.flow import Flow
from mitmproxy.http import HTTPFlow

from turnstile.addon.backends.glance import Glance, glance
from turnstile.addon.backends.moe_shape import moe_shape
from turnstile.addon.capture.merging import Standing
from turnstile.addon.tracelog.records import Exchange

EXCHANGE = "turnstile_exchange"
"""The key of the exchange's id, which every captured flow has."""

GROUP = "turnstile_group"
ROLLOUT = "turnstile_rollout"

IMAGE_TOKEN = "turnstile_image_token"
"""The key of the id that stands for images in prompts, where it is known."""

EXPERTS = "turnstile_experts"
"""The key of how a row of routed experts is made up, [layers, experts a token], where it is known."""

LOG = "turnstile_log"
"""The key of the trace log's path in a flow that was made from one: its response is the backend's own."""

PROBLEM_MARK = ":warning:"
SPLIT_MARK = ":scissors:"
_IMAGE_TOKEN_KEYS = ("image_token_id", "image_token_index", "img_context_token_id")
_ERROR_LENGTH = 160


def annotate(
    flow: HTTPFlow,
    exchange: Exchange,
    model_config: Mapping[str, Any] | None,
    standing: Standing | None = None,
) -> None:
    """Has the flow tell of its exchange; `model_config` is that of the model that answered, if known."""
    seen = glance(exchange.reply)
    _note(
        flow,
        {
            EXCHANGE: exchange.exchange_id,
            GROUP: exchange.group_id,
            ROLLOUT: exchange.rollout_id,
            "turnstile_outcome": exchange.outcome,
            "turnstile_tokens": _tokens(seen),
            "turnstile_finish": ",".join(seen.finish_reasons),
            "turnstile_missing": ", ".join(exchange.missing),
            "turnstile_problems": "; ".join(_problems(exchange, seen)),
            IMAGE_TOKEN: _image_token(model_config),
            EXPERTS: _experts(model_config),
        },
    )
    if "abort" in seen.finish_reasons:
        flow.marked = flow.marked or PROBLEM_MARK
    if standing is not None:
        add_standing(flow, standing)


def add_standing(flow: HTTPFlow, standing: Standing) -> None:
    """Has a flow that tells of its exchange tell what became of it."""
    _note(
        flow,
        {
            "turnstile_turn": standing.turn,
            "turnstile_split": standing.split,
            "turnstile_left": standing.left,
            "turnstile_findings": ", ".join(standing.findings),
        },
    )


def is_annotated(flow: Flow | None) -> TypeGuard[HTTPFlow]:
    """Whether the flow tells of a captured exchange."""
    return isinstance(flow, HTTPFlow) and EXCHANGE in flow.metadata


def note_unrecorded(flow: HTTPFlow, problem: str) -> None:
    """Has a flow say that its exchange is not in the log."""
    said = f"not recorded: {problem}"[:_ERROR_LENGTH]
    known = flow.metadata.get("turnstile_problems")
    _note(flow, {"turnstile_problems": "; ".join(filter(None, (known, said)))})


def _note(flow: HTTPFlow, facts: Mapping[str, Any]) -> None:
    """Adds what is known, and has comment and mark tell of it."""
    before = _comment(flow.metadata) if is_annotated(flow) else ""
    flow.metadata |= {name: value for name, value in facts.items() if value not in (None, "")}
    if flow.comment == before:
        flow.comment = _comment(flow.metadata)
    if flow.marked in ("", SPLIT_MARK):
        flow.marked = _mark(flow.metadata) or flow.marked


def _comment(metadata: Mapping[str, Any]) -> str:
    def told(name: str, before: str = "", behind: str = "") -> str:
        value = metadata.get(f"turnstile_{name}")
        return f"{before}{value}{behind}" if value is not None else ""

    return "  ".join(
        filter(
            None,
            (
                told("group") + told("rollout", "/"),
                told("turn", "turn "),
                told("tokens", behind=" tokens"),
                told("finish"),
                told("split", "split: "),
                told("problems") or told("findings"),  # capture's own words say more than a kind
            ),
        )
    )


def _mark(metadata: Mapping[str, Any]) -> str:
    if metadata.keys() & {"turnstile_problems", "turnstile_findings"}:
        return PROBLEM_MARK
    return SPLIT_MARK if "turnstile_split" in metadata else ""


def _tokens(seen: Glance) -> str:
    if seen.prompt_tokens is None and seen.sampled_tokens is None:
        return ""
    numbers = ("?" if number is None else number for number in (seen.prompt_tokens, seen.sampled_tokens))
    return "{}+{}".format(*numbers)


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


def _experts(model_config: Mapping[str, Any] | None) -> list[int] | None:
    shape = moe_shape(model_config)
    return None if shape.layers is None or shape.top_k is None else [shape.layers, shape.top_k]
