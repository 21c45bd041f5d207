"""Joins sequences that strict merging split because the same messages came back in other tokens.

A sequence is joined to an earlier one when its start has the cause `retokenized` (the request resends an
earlier turn's messages and answer unchanged, see turnstile.compiler.causes) and that turn is the last of the
earlier one, to which nothing else was joined. How, is the policy's: it gives turns with the context in which
they would be trained. A turn whose own prompt was another is flagged.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from turnstile.compiler.causes import Explanation
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.sequence import TrainingSequence
from turnstile.compiler.turn import Turn

CONTEXT_NOT_SEEN = "context_not_seen"

Images = tuple[PromptImage, ...]

Join = Callable[[OpenSequence, OpenSequence], OpenSequence | None]
"""Puts a later sequence behind an earlier one; None where the policy has no way to."""


def joined(
    sequences: Sequence[OpenSequence], explanations: Sequence[Explanation], join: Join
) -> tuple[list[OpenSequence], list[Explanation]]:
    """The sequences of one group, joined where that goes, and why each that is left was started."""
    home = {id(turn): index for index, each in enumerate(sequences) for turn in each.turns}
    chains, chain_of, last_part, first_part = list[OpenSequence](), list[int](), list[int](), list[int]()
    for index, (sequence, why) in enumerate(zip(sequences, explanations, strict=True)):
        before = home[id(why.about)] if why.cause == "retokenized" and why.about is not None else None
        if before is not None and sequences[before].turns[-1] is why.about:
            chain = chain_of[before]
            longer = join(chains[chain], sequence) if last_part[chain] == before else None
            if longer is not None:
                chains[chain], last_part[chain] = longer, index
                chain_of.append(chain)
                continue
        chain_of.append(len(chains))
        chains.append(sequence)
        first_part.append(index)
        last_part.append(index)
    return _linked(sequences, chains, chain_of), _about_what_is_left(explanations, chains, first_part)


def in_context(turn: Turn, context_T: Tokens, images: Images, *, was_seen: bool) -> Turn:
    """The turn as if it had had this prompt, with these images."""
    flags = turn.flags if was_seen or CONTEXT_NOT_SEEN in turn.flags else (*turn.flags, CONTEXT_NOT_SEEN)
    return replace(turn, prompt_ids=context_T, images=images, flags=flags)


def named_after(policy: str, sequence: TrainingSequence) -> TrainingSequence:
    """The sequence with the name of the policy that made it in its metadata."""
    return replace(sequence, metadata={**sequence.metadata, "policy": policy})


def _linked(
    sequences: Sequence[OpenSequence], chains: Sequence[OpenSequence], chain_of: Sequence[int]
) -> list[OpenSequence]:
    """Copies of the chains whose parents are chains too."""
    index_of = {id(sequence): index for index, sequence in enumerate(sequences)}
    linked = [replace(chain) for chain in chains]
    for chain in linked:
        if chain.parent is not None:
            chain.parent = linked[chain_of[index_of[id(chain.parent)]]]
    return linked


def _about_what_is_left(
    explanations: Sequence[Explanation], chains: Sequence[OpenSequence], first_part: Sequence[int]
) -> list[Explanation]:
    turns = {(turn.exchange_id, turn.choice): turn for chain in chains for turn in chain.turns}
    found = (explanations[index] for index in first_part)
    return [
        replace(why, about=turns.get((why.about.exchange_id, why.about.choice)) if why.about else None)
        for why in found
    ]
