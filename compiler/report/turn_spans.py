"""Which tokens each turn added, told from the segments of a sequence.

A turn adds a run of context and a run of what it sampled. A turn some of whose sampled ids have no logprob
leaves several runs, or none, and then its bounds are not told: `logprobs_partial` says so.
"""

from typing import NamedTuple

from turnstile.compiler.sequence import TrainingSequence


class TurnSpan(NamedTuple):
    """Indices into the tokens of a sequence."""

    start: int  # of the first token that it added
    sampled: int  # of the first token that it sampled
    end: int  # behind its last


def trained_stretches(sequence: TrainingSequence) -> list[TurnSpan]:
    """Each trained run with the context before it; context at the end is one more, without a trained run."""
    spans, start, at = list[TurnSpan](), 0, 0
    for is_trained, length in sequence.segment_info:
        at += length
        if is_trained:
            spans.append(TurnSpan(start, at - length, at))
            start = at
    return [*spans, TurnSpan(start, at, at)] if start < at else spans


def tells_turns(sequence: TrainingSequence) -> bool:
    """Whether the stretches are the turns, one each."""
    trained = sum(is_trained for is_trained, _ in sequence.segment_info)
    return trained == len(sequence.exchanges) and "logprobs_partial" not in sequence.flags
