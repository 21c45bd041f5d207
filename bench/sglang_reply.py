"""A chat completion as SGLang 0.5.23 gives it when it is asked for prompt ids, logprobs and meta info."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WEIGHT_VERSION = "step-42"
END_ID, END_TEXT = 151645, "<|im_end|>"  # Qwen's
_ID = "e" * 32
_AT = 1_796_021_198  # Unix seconds


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was sampled, token by token, an end token last."""

    ids: Sequence[int]
    texts: Sequence[str]
    logprobs: Sequence[float]


def chat_completion(
    prompt_ids_text: bytes, prompt_tokens: int, sampled: Sampled, cached_tokens: int = 0
) -> bytes:
    """The body of the reply; `prompt_ids_text` are the prompt's ids with commas between them."""
    reply = {
        "id": _ID,
        "object": "chat.completion",
        "created": _AT,
        "model": "mock",
        "choices": [_choice(prompt_tokens, sampled, cached_tokens)],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + len(sampled.ids),
            "completion_tokens": len(sampled.ids),
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
            "completion_tokens_details": None,
        },
        "metadata": {"weight_version": WEIGHT_VERSION, "weight_versions": _versions(sampled)},
    }
    # the ids are put in as text: a long session would pay for their encoding in every turn
    return dumped(reply).replace(b'"prompt_token_ids":[', b'"prompt_token_ids":[' + prompt_ids_text, 1)


def with_routing(reply: bytes, text: memoryview) -> bytes:
    """The reply to a request that asked for routed experts as well; `text` is their base64."""
    before, key, behind = reply.partition(b',"dp_rank":')
    return b"".join([before, b',"routed_experts":"', text, b'"', key, behind])


def dumped(value: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def _choice(prompt_tokens: int, sampled: Sampled, cached_tokens: int) -> dict[str, Any]:
    text = "".join(sampled.texts[:-1])
    return {
        "index": 0,
        "message": {"role": "assistant", "content": text, "reasoning_content": None},
        "logprobs": {
            "content": [
                {"token": token, "bytes": list(token.encode()), "logprob": logprob, "top_logprobs": []}
                for token, logprob in zip(sampled.texts, sampled.logprobs, strict=True)
            ]
        },
        "finish_reason": "stop",
        "matched_stop": END_ID,
        "prompt_token_ids": [],
        "meta_info": _meta_info(prompt_tokens, sampled, cached_tokens),
    }


def _meta_info(prompt_tokens: int, sampled: Sampled, cached_tokens: int) -> dict[str, Any]:
    return {
        "id": _ID,
        "finish_reason": {"type": "stop", "matched": END_ID},
        "prompt_tokens": prompt_tokens,
        "weight_version": WEIGHT_VERSION,
        "num_retractions": 0,
        "input_token_logprobs": [],
        "output_token_logprobs": list(zip(sampled.logprobs, sampled.ids, sampled.texts, strict=True)),
        "output_token_logprobs_length": len(sampled.ids),
        "reasoning_tokens": 0,
        "completion_tokens": len(sampled.ids),
        "cached_tokens": cached_tokens,
        "weight_versions": _versions(sampled),
        "cached_tokens_details": None,
        "dp_rank": None,
        "e2e_latency": 0.0831,
        "response_sent_to_client_ts": _AT + 0.51,
    }


def _versions(sampled: Sampled) -> list[dict[str, Any]]:
    return [{"version": WEIGHT_VERSION, "start": 0, "end": len(sampled.ids)}]
