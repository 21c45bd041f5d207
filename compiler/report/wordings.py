"""What a report says about causes and flags, in the words of docs/sequences.md."""

CAUSES = {
    "routing_changed": "goes on the tokens of another sequence, some of which were routed to other experts",
    "image_changed": "has other pictures, video or sound behind tokens that go on the earlier sequence",
    "sibling": "has the very prompt of an earlier turn: another sample",
    "aborted": "has the very prompt of a turn that was broken off or never delivered: the retry",
    "retokenized": "resends an earlier answer unchanged, and the server spells it in other tokens",
    "history_rewritten": "resends the conversation changed, or with another answer in it",
    "new_prompt": "shares nothing that was sampled",
}

FLAGS = {
    "aborted": "the policy did not choose where it ends",
    "context_not_seen": "a trained token's context is not the prompt that it was sampled behind",
    "logprobs_partial": "some logprobs are unknown, and their tokens are not trained",
    "media_left_out": "video, sound or a file stands behind tokens of it, and is not in it",
    "routing_untrusted": "its routed experts may not be those of its tokens: do not replay them",
    "stale_cache": "logprobs were computed on keys and values of older weights",
    "truncated": "cut at --max-tokens",
    "undelivered": "an answer never reached the harness",
}


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
