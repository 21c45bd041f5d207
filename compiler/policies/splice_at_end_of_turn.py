"""splice-at-end-of-turn: sampled tokens are kept, and what a new prompt has behind them is put behind them.

Unlike strict it goes on with a sequence whose messages came back in other tokens, as servers do that glue the
tokens of a session: the sequence keeps its own tokens, and of the new prompt only the ids behind the resent
answer are taken. The answer's end is found by its last id, a stop token: where it stands in the prompt as
often as in the sequence so far. So later turns are trained behind a history that the engine was never given.
An answer that did not end with a stop token, or ends otherwise in the prompt, cannot be spliced and starts a
sequence. Routing is left out, for its rows are those of other tokens.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.policies.joining import in_context
from turnstile.compiler.routing.joined import KnownRouting
from turnstile.compiler.turn import Turn

_ENDED = ("stop", "tool_calls")


def spliced(earlier: OpenSequence, later: OpenSequence) -> OpenSequence | None:
    """The earlier sequence, and behind it what the later one has behind the answer that both have."""
    last, prompt_T = earlier.turns[-1], later.turns[0].prompt_ids
    if last.finish_reason not in _ENDED:
        return None
    count = int(np.count_nonzero(earlier.tokens_T == last.sampled_ids[-1]))
    places = np.flatnonzero(prompt_T == last.sampled_ids[-1])
    if len(places) < count:
        return None
    cut, kept = int(places[count - 1]) + 1, len(earlier.tokens_T)
    tokens_T = np.concatenate((earlier.tokens_T, later.tokens_T[cut:]))
    was_seen = np.array_equal(prompt_T[:cut], earlier.tokens_T)
    moved = [
        in_context(
            turn,
            tokens_T[: kept + len(turn.prompt_ids) - cut],
            (*earlier.images, *_moved_images(turn, cut, kept - cut)),
            was_seen=was_seen,
        )
        for turn in later.turns
    ]
    return replace(
        earlier,
        tokens_T=tokens_T,
        turns=[*earlier.turns, *moved],
        starts=[*earlier.starts, kept, *(kept + start - cut for start in later.starts[1:])],
        rollout_ids=earlier.rollout_ids | later.rollout_ids,
        routing=KnownRouting(),
    )


def _moved_images(turn: Turn, cut: int, offset: int) -> Iterator[PromptImage]:
    """The images of its prompt from `cut` on, as far away as their tokens are."""
    for image in turn.images:
        start, size = image.token_span
        if start >= cut:
            yield replace(image, token_span=(start + offset, size))
