"""Why a turn started a sequence instead of going on an earlier one.

The cause of a start is the first of these that holds:

routing_changed    the prompt begins with all tokens of a sequence, and their routing is another
aborted            an earlier exchange of the rollout had exactly this prompt, and its answer was broken off
                   or never reached the harness: this is the retry
sibling            an earlier turn of the rollout had exactly this prompt: another sample
image_changed      by its tokens the prompt would go on an earlier sequence, or share sampled tokens with it,
                   but other pictures (or video, sound) stand behind them
retokenized        the request resends an earlier turn's messages and answer unchanged, and yet that turn's
                   tokens are no prefix of the prompt: the template or the tokenizer spells them otherwise
sibling            an earlier turn of another rollout had exactly this prompt
history_rewritten  the request resends an earlier turn's messages with another answer behind them, or sampled
                   tokens are shared and something after them was changed
new_prompt         nothing that was sampled before is shared

Of several turns that would do, one of the same rollout is meant, of these the latest. `history_rewritten`
includes another continuation of the same beginning: the other answer of a tool, a second sub-agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.sequence import Cause
from turnstile.compiler.turn import Turn, Wording

_RETRIED = {"aborted", "undelivered"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a sequence was started."""

    cause: Cause
    about: Turn | None  # the earlier turn that makes it so


class _Latest[Key]:
    """The latest turn with a key."""

    def __init__(self) -> None:
        self._of_rollout: dict[tuple[str | None, Key], Turn] = {}
        self._of_any: dict[Key, Turn] = {}

    def note(self, key: Key, turn: Turn) -> None:
        self._of_rollout[turn.rollout_id, key] = self._of_any[key] = turn

    def find(self, key: Key, rollout_id: str | None) -> Turn | None:
        """Of the rollout; else of any."""
        return self._of_rollout.get((rollout_id, key)) or self._of_any.get(key)


class Causes:
    """What is known of the turns of one group, to explain the starts to come."""

    def __init__(self) -> None:
        self._by_prompt = _Latest[_PromptKey]()
        self._by_wording = _Latest[Wording]()
        self._by_request = _Latest[bytes]()
        self._first_sampled: dict[int, int] = {}  # id of a sequence -> its first token that was ever sampled

    def of_start(self, sequence: OpenSequence, answers: Sequence[Wording]) -> Explanation:
        """Why `sequence` was started by its first turn, whose request resent these `answers`."""
        turn = sequence.turns[0]
        shares_sampled = self._shares_sampled(sequence)
        refusal = sequence.refusal
        if refusal is not None and refusal.cause == "routing_changed":
            return Explanation(refusal.cause, refusal.sequence.turns[-1])
        same = self._same_prompt(turn)
        if same is not None and same.rollout_id == turn.rollout_id:
            is_retry = same.exchange_id != turn.exchange_id and _RETRIED.intersection(same.flags)
            return Explanation("aborted" if is_retry else "sibling", same)
        if refusal is not None:
            return Explanation(refusal.cause, refusal.sequence.turns[-1])
        if sequence.other_images is not None:
            return Explanation("image_changed", sequence.other_images)
        latest_first, rollout_id = answers[::-1], turn.rollout_id
        resent = (self._by_wording.find(answer, rollout_id) for answer in latest_first)
        if (earlier := next(filter(None, resent), None)) and not _begins_with(turn, earlier):
            return Explanation("retokenized", earlier)
        if same is not None:
            return Explanation("sibling", same)
        answered = (self._by_request.find(answer.request, rollout_id) for answer in latest_first)
        earlier = next(filter(None, answered), None)
        return Explanation("history_rewritten" if earlier or shares_sampled else "new_prompt", earlier)

    def note(self, turn: Turn) -> None:
        """`turn` has been added to some sequence."""
        self._by_prompt.note(_prompt_key(turn), turn)
        if turn.wording is not None:
            self._by_wording.note(turn.wording, turn)
            self._by_request.note(turn.wording.request, turn)

    def _shares_sampled(self, sequence: OpenSequence) -> bool:
        """Whether what a new sequence shares with its parent holds a token that was ever sampled."""
        own_first, shared = len(sequence.turns[0].prompt_ids), sequence.shared_tokens
        inherited = self._first_sampled[id(sequence.parent)] if sequence.parent else own_first
        self._first_sampled[id(sequence)] = inherited if inherited < min(shared, own_first) else own_first
        return inherited < shared

    def _same_prompt(self, turn: Turn) -> Turn | None:
        same = self._by_prompt.find(_prompt_key(turn), turn.rollout_id)
        return same if same is not None and np.array_equal(same.prompt_ids, turn.prompt_ids) else None


type _PromptKey = tuple[int, int, tuple[PromptImage, ...], tuple[bytes, ...]]


def _prompt_key(turn: Turn) -> _PromptKey:
    """Tells nearly all prompts apart at the cost of one pass."""
    ids_T = turn.prompt_ids.view(np.uint32)  # of which the sum may run over: none has to be widened for it
    return len(ids_T), int(ids_T.sum(dtype=np.uint32)), turn.images, turn.other_media


def _begins_with(turn: Turn, earlier: Turn) -> bool:
    """Whether all tokens of `earlier` are a prefix of the prompt of `turn`."""
    middle = len(earlier.prompt_ids)
    end = middle + len(earlier.sampled_ids)
    return np.array_equal(turn.prompt_ids[:middle], earlier.prompt_ids) and np.array_equal(
        turn.prompt_ids[middle:end], earlier.sampled_ids
    )
