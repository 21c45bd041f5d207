"""Open sequences as training sequences: which tokens are trained, under which weights, and from where."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.causes import Explanation
from turnstile.compiler.images.agreement import agreed_size
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.outcome import routed_experts_of
from turnstile.compiler.selection import TRUNCATED
from turnstile.compiler.sequence import Call, Cause, Parent, TrainingSequence
from turnstile.compiler.stale_cache import sequences_with_stale_cache
from turnstile.compiler.token_tree import equal_front
from turnstile.compiler.turn import Turn

Segments = tuple[tuple[bool, int], ...]
Versions = list[tuple[int, str]]  # (token index, version from there on)


def training_sequences(
    sequences: Sequence[OpenSequence],
    explanations: Sequence[Explanation],
    kept: Sequence[OpenSequence | None],
) -> Iterator[TrainingSequence]:
    """What is kept of one group's sequences, in the order in which they were started.

    `explanations` tell why each was started, `kept` what is wanted of each, None for nothing. One that
    shares nothing with what is kept of its parent has no parent.
    """
    owners = {id(turn): sequence for sequence in sequences for turn in sequence.turns}
    parts = {id(whole): part for whole, part in zip(sequences, kept, strict=True)}
    stale = sequences_with_stale_cache(sequences)
    for index, (whole, explanation) in enumerate(zip(sequences, explanations, strict=True)):
        if (sequence := parts[id(whole)]) is None:
            continue
        flags = {flag for turn in sequence.turns for flag in turn.flags}
        if index in stale:
            flags.add("stale_cache")
        if sequence is not whole:
            flags.add(TRUNCATED)
        left = _left(whole, explanation, owners)
        parent = _parent(sequence, None if left is None else parts[id(left)], explanation.cause)
        yield _training_sequence(sequence, parent, tuple(sorted(flags)))


def sequence_id_of(turn: Turn) -> str:
    """The id of the sequence that `turn` started."""
    return f"{turn.exchange_id}.{turn.choice}"


def _training_sequence(
    sequence: OpenSequence, parent: Parent | None, flags: tuple[str, ...]
) -> TrainingSequence:
    first = sequence.turns[0]
    return TrainingSequence(
        sequence_id=sequence_id_of(first),
        group_id=first.group_id,
        rollout_id=first.rollout_id,
        tokens=sequence.tokens_T,
        logprobs=_logprobs(sequence),
        segment_info=_segments(sequence),
        weight_versions=_weight_versions(sequence),
        routed_experts=routed_experts_of(sequence),
        images=sequence.images,
        exchanges=tuple(Call(turn.exchange_id, turn.choice) for turn in sequence.turns),
        parent=parent,
        finish_reasons=tuple(turn.finish_reason or "" for turn in sequence.turns),
        sampling=tuple(turn.sampling for turn in sequence.turns),
        flags=flags,
        metadata=_metadata(sequence),
    )


def _left(
    sequence: OpenSequence, explanation: Explanation, owners: Mapping[int, OpenSequence]
) -> OpenSequence | None:
    """The forest's parent, or the sequence that explains the start where that shares as many tokens."""
    if sequence.parent is None or explanation.about is None:
        return sequence.parent
    about = owners[id(explanation.about)]
    return about if _shared(about, sequence) >= sequence.shared_tokens else sequence.parent


def _parent(sequence: OpenSequence, left: OpenSequence | None, cause: Cause) -> Parent | None:
    """That `sequence` left another one, both as they are kept; None where they share nothing.

    What they share counts as they are in the end, for both may have grown alike since, or been cut.
    """
    if left is None or not (shared := _shared(left, sequence)):
        return None
    return Parent(sequence_id_of(left.turns[0]), shared, cause)


def _shared(one: OpenSequence, other: OpenSequence) -> int:
    """The length of the longest common beginning, images included."""
    return agreed_size(one.images, other.images, equal_front(one.tokens_T, other.tokens_T))


def _logprobs(sequence: OpenSequence) -> NDArray[np.float64]:
    """[T], 0.0 where nothing is trained."""
    logprobs_T = np.zeros(len(sequence.tokens_T))
    for turn in sequence.turns:
        start = len(turn.prompt_ids)
        logprobs_T[start : start + len(turn.sampled_ids)] = np.nan_to_num(turn.logprobs, nan=0.0)
    return logprobs_T


def _segments(sequence: OpenSequence) -> Segments:
    """Runs of context and of trained tokens; a context run takes in the sampled ids without a logprob."""
    segments: list[tuple[bool, int]] = []
    for turn, start in zip(sequence.turns, sequence.starts, strict=True):
        for is_trained, length in ((False, len(turn.prompt_ids) - start), *_runs(~np.isnan(turn.logprobs))):
            if not is_trained and segments and not segments[-1][0]:
                length += segments.pop()[1]
            if length:
                segments.append((is_trained, length))
    return tuple(segments)


def _runs(mask: NDArray[np.bool_]) -> list[tuple[bool, int]]:
    """The run lengths of a mask that is not empty."""
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    bounds = [0, *edges.tolist(), len(mask)]
    return [(bool(mask[start]), end - start) for start, end in pairwise(bounds)]


def _weight_versions(sequence: OpenSequence) -> tuple[tuple[int, str], ...]:
    """What a turn adds carries its version, from its context on; "" where it is unknown."""
    entries: Versions = []
    for turn, start in zip(sequence.turns, sequence.starts, strict=True):
        spans = turn.weight_spans or ((0, ""),)
        entries.append((start, spans[0][1]))
        entries += [(len(turn.prompt_ids) + at, version) for at, version in spans[1:]]
    return tuple(_changes(entries))


def _metadata(sequence: OpenSequence) -> dict[str, Any]:
    """Of turns whose answers tell no version, what was read around them; "" for all other turns."""
    read = zip(sequence.starts, (turn.version_read or "" for turn in sequence.turns), strict=True)
    changes = _changes(list(read))
    return {"weight_version_read": [list(change) for change in changes]} if changes else {}


def _changes(entries: Versions) -> Versions:
    """The entries that differ from the one before; none when no version is known."""
    if not any(version for _, version in entries):
        return []
    return entries[:1] + [entry for before, entry in pairwise(entries) if entry[1] != before[1]]
