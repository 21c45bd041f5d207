"""realign-and-mask: the history is what the last prompt spells; what was sampled otherwise is not trained.

Unlike strict it goes on with a sequence whose messages came back in other tokens. The sequence takes the
tokens of the new prompt. An earlier turn stays trained where its sampled ids stand in that prompt whole and
in order, behind those of the turns before it; else the prompt's ids stand for it, and all that it sampled is
dropped from training. A turn that stays may have another context than it was sampled in: earlier ids were
replaced, or it moved. Routing is left out, for its rows are those of other tokens.
"""

from dataclasses import replace

from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.policies.joining import in_context
from turnstile.compiler.routing.joined import KnownRouting
from turnstile.compiler.token_tree import equal_front
from turnstile.compiler.turn import Turn


def realigned(earlier: OpenSequence, later: OpenSequence) -> OpenSequence:
    """The later sequence, with those of the earlier one's turns that its first prompt spells as sampled."""
    prompt_T = later.turns[0].prompt_ids
    prompt, seen = _Prompt(prompt_T), equal_front(earlier.tokens_T, prompt_T)
    turns, starts, end = list[Turn](), list[int](), 0
    for turn in earlier.turns:
        at = prompt.place(turn, end, seen)
        if at is not None:
            was_seen = at == len(turn.prompt_ids) and at <= seen
            images = tuple(image for image in later.turns[0].images if image.token_span[0] < at)
            turns.append(in_context(turn, prompt_T[:at], images, was_seen=was_seen))
            starts.append(end)
            end = at + len(turn.sampled_ids)
    return replace(
        earlier,
        tokens_T=later.tokens_T,
        turns=[*turns, *later.turns],
        starts=[*starts, end, *later.starts[1:]],
        rollout_ids=earlier.rollout_ids | later.rollout_ids,
        routing=KnownRouting(),
    )


class _Prompt:
    """A prompt to look for sampled ids in."""

    def __init__(self, prompt_T: Tokens) -> None:
        self._text = prompt_T.tobytes()
        self._size = prompt_T.itemsize

    def place(self, turn: Turn, start: int, seen: int) -> int | None:
        """Where the turn's sampled ids stand: where they were, else the first place from `start` on."""
        own = len(turn.prompt_ids)
        if own + len(turn.sampled_ids) <= seen:
            return own
        wanted = turn.sampled_ids.tobytes()
        at = self._text.find(wanted, start * self._size)
        while at >= 0 and at % self._size:
            at = self._text.find(wanted, at + 1)
        return at // self._size if at > 0 else None
