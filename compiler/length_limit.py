"""Leaves out the sequences that are longer than the trainer can take."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.sequence import TrainingSequence


def too_long(sequences: Sequence[OpenSequence], max_tokens: int | None) -> list[Finding]:
    """One finding for every call of a sequence of more than `max_tokens`; None is no limit."""
    return [
        Place(turn.exchange_id, turn.choice, turn.log, turn.offset).error(
            "too_long",
            f"its sequence has {len(sequence.tokens_T)} tokens, more than the {max_tokens} wanted",
        )
        for sequence in sequences
        if max_tokens is not None and len(sequence.tokens_T) > max_tokens
        for turn in sequence.turns
    ]


def within(sequences: Iterable[TrainingSequence], max_tokens: int | None) -> Iterator[TrainingSequence]:
    """The sequences of one group that are not too long; one whose parent is left out has no parent."""
    left_out: set[str] = set()
    for sequence in sequences:
        if max_tokens is not None and len(sequence.tokens) > max_tokens:
            left_out.add(sequence.sequence_id)
        elif sequence.parent is not None and sequence.parent.sequence_id in left_out:
            yield replace(sequence, parent=None)
        else:
            yield sequence
