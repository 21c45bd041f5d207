"""Chat completions as SGLang 0.5.23 writes them, small, with every field that capture asks for."""

import json
from typing import Any

REPLY_ID = "9a65dbcaef3646ffacacfc366fd19689"


def compact(value: Any) -> bytes:
    """JSON as SGLang sends it: no spaces, text as it is."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def chat_request(**fields: Any) -> bytes:
    """A request's body; `fields` are added to a model and one message."""
    usual = {"model": "tiny", "messages": [{"role": "user", "content": "Count."}]}
    return compact(usual | fields)


def choice(
    index: int = 0,
    *,
    prompt_ids: tuple[Any, ...] = (151644, 872),
    sampled: tuple[tuple[Any, Any, str], ...] = ((-0.5, 19, "4"), (-0.25, 151645, "<|im_end|>")),
    message: dict[str, Any] | None = None,
    finish_reason: str = "stop",
    meta_info: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A choice of a reply to a request with logprobs, return_meta_info and return_prompt_token_ids.

    `sampled` holds (logprob, token id, text); `meta_info` and `fields` are added to the usual ones.
    """
    matched = sampled[-1][1] if finish_reason == "stop" and sampled else None
    rows = [
        {"token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": []}
        for logprob, _, text in sampled
    ]
    usual_meta_info = {
        "id": REPLY_ID,
        "finish_reason": {"type": finish_reason, "matched": matched},
        "prompt_tokens": len(prompt_ids),
        "weight_version": "step-1",
        "num_retractions": 0,
        "input_token_logprobs": [],
        "output_token_logprobs": [list(row) for row in sampled],
        "output_token_logprobs_length": len(sampled),
        "completion_tokens": len(sampled),
        "cached_tokens": 1,
        "weight_versions": [{"version": "step-1", "start": 0, "end": len(sampled)}],
    }
    usual = {
        "index": index,
        "message": {"role": "assistant", "content": "4", "reasoning_content": None} | (message or {}),
        "logprobs": {"content": rows},
        "finish_reason": finish_reason,
        "matched_stop": matched,
        "prompt_token_ids": list(prompt_ids),
        "meta_info": usual_meta_info | (meta_info or {}),
    }
    return usual | fields


def completion(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A reply of these choices (one usual one when none is given); `fields` are added to it."""
    given = list(choices or (choice(),))
    prompt = len(given[0].get("prompt_token_ids") or ())
    sampled = sum(len((each.get("logprobs") or {}).get("content", ())) for each in given)
    usual = {
        "id": REPLY_ID,
        "object": "chat.completion",
        "created": 1796025950,
        "model": "tiny",
        "choices": given,
        "usage": {
            "prompt_tokens": prompt,
            "total_tokens": prompt + sampled,
            "completion_tokens": sampled,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
            "completion_tokens_details": None,
        },
        "metadata": {"weight_version": (given[0].get("meta_info") or {}).get("weight_version")},
    }
    return usual | fields


def as_without_turnstile(reply: dict[str, Any], *, logprobs: bool = False) -> dict[str, Any]:
    """`reply` as the server gives it to a harness that asked for none of the added fields."""
    added = {"prompt_token_ids", "response_token_ids", "meta_info"}
    choices = [{name: each[name] for name in each if name not in added} for each in reply["choices"]]
    if not logprobs:
        choices = [each | {"logprobs": None} for each in choices]
    return reply | {"choices": choices}


TOOL_CALL = {
    "id": "call_579a88c8993641268595f06b",
    "index": 0,
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"zip": "879"}'},
}


def tool_call_choice(index: int = 0, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A choice that calls tools (one usual one when none is given)."""
    said = {"content": "", "tool_calls": list(calls or (TOOL_CALL,))}
    return choice(index, message=said, finish_reason="tool_calls", **fields)
