"""What must hold of every training sequence by itself."""

import hashlib
from itertools import pairwise

import numpy as np

from turnstile.compiler.sequence import TrainingSequence


def broken_promise(sequence: TrainingSequence) -> str:
    """The first promise about its fields that a sequence breaks, in words; "" when it keeps all."""
    return next(filter(None, (check(sequence) for check in _CHECKS)), "")


def _lengths(sequence: TrainingSequence) -> str:
    count = len(sequence.tokens)
    if len(sequence.logprobs) != count:
        return f"{count} tokens, but {len(sequence.logprobs)} logprobs"
    lengths = [length for _, length in sequence.segment_info]
    if sum(lengths) != count or min(lengths, default=0) < 1:
        return f"{count} tokens, but segment_info has the lengths {lengths}"
    return ""


def _tokens(sequence: TrainingSequence) -> str:
    negative = np.flatnonzero(sequence.tokens < 0)
    return f"token {negative[0]} is {sequence.tokens[negative[0]]}" if len(negative) else ""


def _segments(sequence: TrainingSequence) -> str:
    kinds = [is_trained for is_trained, _ in sequence.segment_info]
    if kinds[0]:
        return "begins with a sampled token: something must have been in the prompt"
    if True not in kinds:
        return "holds no trained token"
    joined = next((at for at, (one, other) in enumerate(pairwise(kinds)) if not one and not other), None)
    return "" if joined is None else f"segments {joined} and {joined + 1} are both context"


def _logprobs(sequence: TrainingSequence) -> str:
    wrong = np.flatnonzero(~(np.isfinite(sequence.logprobs) & (sequence.logprobs <= 0)))
    if len(wrong):
        found = sequence.logprobs[wrong[0]]
        return f"the logprob of token {wrong[0]} is {found}, expected a finite number not above 0"
    stray = np.flatnonzero(~sequence.loss_mask & (sequence.logprobs != 0))
    if len(stray):
        return f"token {stray[0]} is context and has the logprob {sequence.logprobs[stray[0]]}, expected 0.0"
    return ""


def _weight_versions(sequence: TrainingSequence) -> str:
    indexes = [index for index, _ in sequence.weight_versions]
    if indexes and (indexes[0] != 0 or indexes[-1] >= len(sequence.tokens)):
        return f"weight_versions go from {indexes[0]} to {indexes[-1]} in {len(sequence.tokens)} tokens"
    if any(later <= earlier for earlier, later in pairwise(indexes)):
        return f"weight_versions do not rise strictly: {indexes}"
    return ""


def _routing(sequence: TrainingSequence) -> str:
    experts = sequence.routed_experts
    if experts is None:
        return ""
    if experts.ndim != 3 or len(experts) != len(sequence.tokens) - 1:
        shape = "x".join(map(str, experts.shape))
        return (
            f"{len(sequence.tokens)} tokens, but routed experts of {shape}: expected a row less than tokens"
        )
    return "" if int(experts.min(initial=0)) >= 0 else "routed_experts names an expert below 0"


def _turns(sequence: TrainingSequence) -> str:
    counts = len(sequence.exchanges), len(sequence.finish_reasons), len(sequence.sampling)
    if len(set(counts)) != 1 or not counts[0]:
        return "{} exchanges, {} finish_reasons, {} sampling parameters: expected one of each a turn".format(
            *counts
        )
    first = sequence.exchanges[0]
    if sequence.sequence_id != f"{first.exchange_id}.{first.choice}":
        return f"is not named after its first call, choice {first.choice} of {first.exchange_id}"
    if len(set(sequence.exchanges)) != len(sequence.exchanges):
        return "holds one call twice"
    return ""


def _flags(sequence: TrainingSequence) -> str:
    return (
        ""
        if list(sequence.flags) == sorted(set(sequence.flags))
        else f"flags {sequence.flags} are not sorted"
    )


def _images(sequence: TrainingSequence) -> str:
    at = 0
    for number, image in enumerate(sequence.images, 1):
        start, size = image.token_span
        if not (at <= start and 0 < size <= len(sequence.tokens) - start):
            return f"image {number} has {size} tokens from {start} on, expected some behind {at} of its own"
        at = start + size
        if sequence.loss_mask[start:at].any():
            return f"image {number} has tokens that were sampled"
        if hashlib.sha256(image.data).hexdigest() != image.sha256:
            return f"the file of image {number} does not have its SHA-256"
    return ""


def _processed_images(sequence: TrainingSequence) -> str:
    made = [processed.sha256 for processed in sequence.processed_images]
    distinct = list(dict.fromkeys(image.sha256 for image in sequence.images))
    if made and made != distinct:
        return f"{len(made)} images are processed, expected each of {len(distinct)} once, in their order"
    return ""


_CHECKS = (
    _lengths,
    _tokens,
    _segments,
    _logprobs,
    _weight_versions,
    _routing,
    _turns,
    _images,
    _processed_images,
    _flags,
)
