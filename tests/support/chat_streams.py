"""Live chat streams as SGLang 0.5.23 writes them, small, with every field that capture asks for."""

from typing import Any

from tests.support.chat import REPLY_ID, compact

Sampled = tuple[Any, Any, str]  # logprob, token id, text

HEAD = {"id": REPLY_ID, "object": "chat.completion.chunk", "created": 1796025950, "model": "tiny"}
DONE = b"data: [DONE]\n\n"


def row(logprob: Any, text: str) -> dict[str, Any]:
    """A row of OpenAI's logprobs."""
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": []}


def chunk(
    index: int = 0,
    *sampled: Sampled,
    said: dict[str, Any] | None = None,
    finish_reason: str | None = None,
    matched_stop: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    """A chunk of one choice with the logprobs of `sampled`; `said` is its delta, `fields` are added to it."""
    of_choice = {
        "index": index,
        "delta": {"reasoning_content": None} | (said or {}),
        "logprobs": {"content": [row(logprob, text) for logprob, _, text in sampled]} if sampled else None,
        "finish_reason": finish_reason,
        "matched_stop": matched_stop,
    }
    return HEAD | {"choices": [of_choice]} | fields


def begun(index: int = 0) -> dict[str, Any]:
    """The chunk with which a choice begins."""
    return chunk(index, said={"role": "assistant", "content": ""})


def token(index: int, sampled: Sampled, *, name: str = "content") -> dict[str, Any]:
    """The chunk of one token, whose text it says."""
    return chunk(index, sampled, said={name: sampled[2]})


def finished(index: int = 0, reason: str = "stop", matched_stop: Any = None) -> dict[str, Any]:
    """The chunk with which a choice ends."""
    return chunk(index, finish_reason=reason, matched_stop=matched_stop)


def sglext(**fields: Any) -> dict[str, Any]:
    """The chunk that tells ids, and routed experts."""
    return HEAD | {"choices": [], "usage": None, "sglext": fields}


def usage(prompt_tokens: int = 2, completion_tokens: int = 2) -> dict[str, Any]:
    """The chunk that closes a stream with its usage."""
    counts = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }
    return HEAD | {"choices": [], "usage": counts}


FOUR: Sampled = (-0.5, 19, "4")
END: Sampled = (-0.25, 151645, "<|im_end|>")


def chunks() -> list[dict[str, Any]]:
    """A whole stream of a server with a parser: one choice that says "4" and ends."""
    return [
        begun(),
        token(0, FOUR),
        chunk(0, END),
        finished(matched_stop=151645),
        sglext(input_ids=[151644, 872], output_ids=[[19, 151645]]),
        usage(),
    ]


def chunks_without_turnstile() -> list[dict[str, Any]]:
    """What of `chunks` is for a harness that asked for nothing but a stream."""
    return [begun(), chunk(said={"content": "4"}), chunk(), finished(matched_stop=151645)]


def event(value: dict[str, Any] | bytes, *, name: bytes = b"") -> bytes:
    """An event with that JSON, or those bytes, for its data."""
    data = value if isinstance(value, bytes) else compact(value)
    return (b"event: " + name + b"\n" if name else b"") + b"data: " + data + b"\n\n"


def stream(*values: dict[str, Any] | bytes, done: bool = True) -> bytes:
    """The events of a stream; bytes stand as they are."""
    events = [value if isinstance(value, bytes) else event(value) for value in values]
    return b"".join([*events, DONE] if done else events)
