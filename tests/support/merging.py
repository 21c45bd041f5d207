"""Turns that say something, and what a policy makes of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.turns import turn
from turnstile.compiler.causes import Causes, Explanation
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.policies.joining import Join, joined
from turnstile.compiler.turn import Turn, Wording
from turnstile.compiler.wording import Conversation, reply_digest

Said = tuple[Turn, Sequence[Any]]  # a turn and the messages of its request


def conversation(*turns: tuple[Sequence[int], Sequence[int]], **fields: Any) -> list[Said]:
    """Turns of one conversation, as (prompt ids, sampled ids): each request resends all answers unchanged."""
    messages: list[Any] = [{"role": "user", "content": "question 0"}]
    said = list[Said]()
    for number, (prompt_ids, sampled_ids) in enumerate(turns, 1):
        reply = {"role": "assistant", "content": f"answer {number}"}
        wording = Wording(Conversation().extended(messages).digest, reply_digest(reply))
        said.append((turn(number, prompt_ids, sampled_ids, wording=wording, **fields), tuple(messages)))
        messages += [reply, {"role": "user", "content": f"question {number}"}]
    return said


def with_images(each: Turn, *places: int) -> Turn:
    """The turn with an image of one token at each of these places, always the same ones."""
    images = (PromptImage(f"{at:064x}", "image/png", b"", (place, 1)) for at, place in enumerate(places))
    return replace(each, images=tuple(images))


def strictly(said: Sequence[Said]) -> tuple[list[OpenSequence], list[Explanation]]:
    """The strict sequences, and why each was started."""
    forest, causes, found = TrajectoryForest(), Causes(), list[Explanation]()
    for each, messages in said:
        if (started := forest.add(each)) is not None:
            found.append(causes.of_start(started, Conversation().extended(messages).answers))
        causes.note(each)
    return forest.sequences, found


def joined_by(join: Join, said: Sequence[Said]) -> list[OpenSequence]:
    """What a policy that joins makes of them."""
    return joined(*strictly(said), join)[0]


def in_words(sequence: OpenSequence) -> tuple[list[int], list[tuple[int, int]], list[str]]:
    """(tokens, [start, end) of what each turn sampled, the exchanges of the turns in an unseen context)."""
    spans = [(len(each.prompt_ids), len(each.prompt_ids) + len(each.sampled_ids)) for each in sequence.turns]
    unseen = [each.exchange_id for each in sequence.turns if "context_not_seen" in each.flags]
    return sequence.tokens_T.tolist(), spans, unseen
