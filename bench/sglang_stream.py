"""A chat stream as SGLang 0.5.23 gives it when it is asked for logprobs, usage and ids in `sglext`.

Laid out as a server with a tool parser does it, so that no token's logprob is lost. One thing is not as
SGLang has it: the `id` of every chunk, which passes proxies untouched, is the time at which it was sent.
"""

import random
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sglang_reply import END_ID, END_TEXT, dumped
from vocabulary import vocabulary

PROMPT_IDS = 1_000
DONE = b"data: [DONE]\n\n"
_UNSENT = "0" * 32
_STAMP = re.compile(rb'data: \{"id":"([0-9]{32})"')
_HEAD = {"id": _UNSENT, "object": "chat.completion.chunk", "created": 1_796_021_198, "model": "mock"}


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of one reply, not yet stamped; [DONE] is not among them."""

    begin: bytes  # the role
    tokens: list[bytes]  # one event each, the end token's last
    end: list[bytes]  # finish, sglext, usage


def stream_of(tokens: int) -> Stream:
    """A reply of so many tokens, the same whenever it is asked for."""
    rng, words = random.Random("stream"), vocabulary()
    prompt = words.ids_of(words.draw(rng, PROMPT_IDS))
    numbers = words.draw(rng, tokens - 1)
    ids = [*words.ids_of(numbers), END_ID]
    said = [
        _event(_choice(_row(text, rng), content=text)) for text in (f" {words.words[n]}" for n in numbers)
    ]
    counts = {
        "prompt_tokens": PROMPT_IDS,
        "total_tokens": PROMPT_IDS + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }
    return Stream(
        begin=_event(_choice(None, role="assistant", content="")),
        tokens=[*said, _event(_choice(_row(END_TEXT, rng)))],
        end=[
            _event(_choice(None) | {"finish_reason": "stop", "matched_stop": END_ID}),
            _event(None, usage=None, sglext={"input_ids": prompt, "output_ids": [ids]}),
            _event(None, usage=counts),
        ],
    )


def stamped(event: bytes) -> bytes:
    """The event with the time of now."""
    return event.replace(_UNSENT.encode(), b"%032d" % time.monotonic_ns(), 1)


def sent_at(body: bytes) -> Iterator[tuple[int, int]]:
    """Of each stamped event in the body of a reply: where it ends, and when it was sent (monotonic, ns)."""
    for match in _STAMP.finditer(body):
        yield body.index(b"\n\n", match.end()) + 2, int(match[1])


def _event(choice: dict[str, Any] | None, **fields: Any) -> bytes:
    chunk = _HEAD | {"choices": [] if choice is None else [choice]} | fields
    return b"data: " + dumped(chunk) + b"\n\n"


def _choice(row: dict[str, Any] | None, **said: str) -> dict[str, Any]:
    return {
        "index": 0,
        "delta": {"reasoning_content": None} | said,
        "logprobs": None if row is None else {"content": [row]},
        "finish_reason": None,
        "matched_stop": None,
    }


def _row(text: str, rng: random.Random) -> dict[str, Any]:
    logprob = struct.unpack("f", struct.pack("f", -rng.expovariate(2.0)))[0]
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": []}
