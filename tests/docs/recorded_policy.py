"""A trace log in which a policy answers the README's agent, to be served by `turnstile replay`."""

import json
from pathlib import Path
from typing import Any

from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter

FACTS = BackendFacts(
    kind="sglang",
    version=(0, 5, 23),
    version_text="0.5.23",
    model_path="/models/policy",
    served_model_name="policy",
    server_info={"version": "0.5.23", "served_model_name": "policy"},
    model_info={"model_path": "/models/policy", "weight_version": "step-1"},
)

# Of each call: what the harness asks, the prompt's ids, and the sampled (id, text, logprob).
Sampled = tuple[tuple[int, str, float], ...]
CALLS: tuple[tuple[str, tuple[int, ...], Sampled], ...] = (
    ("Name a prime number.", (1, 10, 11, 12, 2, 3), ((7, "7", -0.5), (2, "<|im_end|>", -0.25))),
    (
        "Another one.",
        (1, 10, 11, 12, 2, 3, 7, 2, 1, 13, 14, 2, 3),
        ((8, "11", -1.5), (2, "<|im_end|>", -0.125)),
    ),
)


def write_log(directory: Path) -> Path:
    """Write the log and give its directory."""
    writer = LogWriter(directory, program="test")
    writer.set_backend(FACTS.as_record())
    messages: list[dict[str, str]] = []
    for number, (question, prompt_ids, sampled) in enumerate(CALLS):
        messages.append({"role": "user", "content": question})
        request = {"messages": messages, "model": "policy", "max_tokens": 64}
        writer.write(
            [_exchange(f"{writer.log_id}-{number:06d}", number, request, _reply(prompt_ids, sampled))]
        )
        messages.append({"role": "assistant", "content": sampled[0][1]})
    writer.close()
    return directory


def _exchange(exchange_id: str, number: int, request: dict[str, Any], reply: dict[str, Any]) -> Exchange:
    return Exchange(
        exchange_id=exchange_id,
        group_id="recorded",
        rollout_id=None,
        started_at=1_700_000_000.0 + number,
        duration_s=0.5,
        method="POST",
        path="/v1/chat/completions",
        outcome="complete",
        status=200,
        request_headers=(("content-type", "application/json"),),
        request=json.dumps(request).encode(),
        splices=(),
        reply_headers=(("content-type", "application/json"),),
        reply=json.dumps(reply).encode(),
    )


def _reply(prompt_ids: tuple[int, ...], sampled: Sampled) -> dict[str, Any]:
    """What SGLang 0.5.23 answers when it is asked for prompt ids, logprobs and meta_info."""
    spans = [{"version": "step-1", "start": 0, "end": len(sampled)}]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": sampled[0][1], "reasoning_content": None},
        "logprobs": {
            "content": [
                {"token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": []}
                for _, text, logprob in sampled
            ]
        },
        "finish_reason": "stop",
        "matched_stop": 2,
        "prompt_token_ids": list(prompt_ids),
        "meta_info": {
            "id": "recorded",
            "finish_reason": {"type": "stop", "matched": 2},
            "prompt_tokens": len(prompt_ids),
            "weight_version": "step-1",
            "weight_versions": spans,
            "num_retractions": 0,
            "input_token_logprobs": [],
            "output_token_logprobs": [[logprob, token, text] for token, text, logprob in sampled],
            "output_token_logprobs_length": len(sampled),
            "completion_tokens": len(sampled),
            "cached_tokens": 0,
        },
    }
    return {
        "id": "recorded",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "policy",
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(prompt_ids),
            "completion_tokens": len(sampled),
            "total_tokens": len(prompt_ids) + len(sampled),
        },
        "metadata": {"weight_version": "step-1", "weight_versions": spans},
    }
