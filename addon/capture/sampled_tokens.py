"""The sampled tokens of a reply with their texts and logprobs, for showing them one beside the other."""

from typing import Any, NamedTuple

from turnstile.addon.backends.reading import read_chat
from turnstile.addon.backends.stream_reading import read_chat_stream
from turnstile.addon.backends.token_texts import token_texts


class SampledToken(NamedTuple):
    """One token as the reply tells of it."""

    id: Any
    logprob: Any  # None where it is unknown
    text: str  # "" where it is unknown


def sampled_tokens(reply: bytes) -> dict[int, list[SampledToken]]:
    """By the choice's index. Raises ValueError or UndecodableReply for what is no chat completion."""
    streamed = is_stream(reply)
    choices = read_chat_stream(reply).choices if streamed else read_chat(reply)
    texts = token_texts(reply, is_stream=streamed)
    tokens = {}
    for choice in choices:
        ids = next(iter(choice.sampled_ids.values()), [])
        logprobs = next(iter(choice.logprobs.values()), [])
        columns = (ids, logprobs, texts.get(choice.choice, []))
        told = [column if len(column) == len(ids) else [None] * len(ids) for column in columns]
        rows = zip(*told, strict=True)
        tokens[choice.choice] = [SampledToken(token, logprob, text or "") for token, logprob, text in rows]
    return tokens


def is_stream(reply: bytes) -> bool:
    """Whether the body is a stream of events, not an object."""
    return reply.lstrip()[:1] != b"{"
