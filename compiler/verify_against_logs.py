"""Holds sequences against the logs that they were compiled from: what was really sent and sampled.

Independent of merging: each call of a sequence is read from the log again, and must stand in the sequence
where that says, with the log-probabilities that it was sampled at. One group is held at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from turnstile.compiler.errors import InvariantBroken
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.replay import Replay
from turnstile.compiler.routing.reading import RoutingReader
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.selection import TRUNCATED
from turnstile.compiler.sequence import Call, TrainingSequence
from turnstile.compiler.turn import Turn
from turnstile.compiler.turns import Readers, Texts, turns_of

Logged = tuple[Turn, tuple[Image | Unreadable, ...]]  # a turn, the images of its request in order


def verify_against_logs(sequences: Iterable[TrainingSequence], path: Path, replay: Replay) -> None:
    """Raises InvariantBroken at the first of the sequences, which stand in `path`, that no log bears out."""
    for group_id, in_group in groupby(sequences, key=attrgetter("group_id")):
        members = list(in_group)
        owners = {call: sequence for sequence in members for call in sequence.exchanges}
        turns, misrouted = dict[Call, Logged](), dict[str, str]()
        for logged, rows in _turns_of_group(replay, group_id):
            turns[call := Call(logged[0].exchange_id, logged[0].choice)] = logged
            if rows is not None and (owner := owners.get(call)) and (fault := _routing_fault(owner, rows)):
                misrouted.setdefault(owner.sequence_id, f"{_name(call)} {fault}")
        for sequence in members:
            if fault := _fault(sequence, turns) or misrouted.get(sequence.sequence_id, ""):
                raise InvariantBroken(f"{path}: sequence {sequence.sequence_id}: {fault}")


def _turns_of_group(replay: Replay, group_id: str) -> Iterator[tuple[Logged, RoutedRows | None]]:
    if group_id not in replay.groups:
        return
    texts, readers = Texts(), Readers(RoutingReader(), None)
    for item in replay.exchanges_of(group_id):
        if not isinstance(item, Finding):
            read = turns_of(item.exchange, item.log, item.offset, texts, readers=readers)
            yield from (((turn, read.images), read.routing.get(turn.choice)) for turn in read.turns)


def _routing_fault(sequence: TrainingSequence, rows: RoutedRows) -> str:
    """Where a turn of the sequence was told other experts than stand in it; "" for nowhere."""
    if sequence.routed_experts is None:
        return ""
    claimed = sequence.routed_experts[rows.start : rows.end]
    told = rows.experts[: len(claimed)]
    if claimed[:1].size != told[:1].size:
        return f"was told rows of {told[:1].size} expert ids, the sequence has {claimed[:1].size}"
    one, other = np.sort(claimed, axis=2), np.sort(told.reshape(claimed.shape), axis=2)
    differs = np.flatnonzero((one != other).any(axis=(1, 2)))
    return f"was told other experts in row {rows.start + int(differs[0])}" if len(differs) else ""


def _name(call: Call) -> str:
    return f"choice {call.choice} of {call.exchange_id}"


def _fault(sequence: TrainingSequence, turns: Mapping[Call, Logged]) -> str:
    """What the logs do not bear out; "" for nothing."""
    sampled_T = np.zeros(len(sequence.tokens), bool)
    for call in sequence.exchanges:
        if (logged := turns.get(call)) is None:
            return f"the logs hold no turn for {_name(call)}"
        turn, images = logged
        if fault := _turn_fault(sequence, turn) or _image_fault(sequence, turn, images):
            return f"{_name(call)} {fault}"
        start, end = _sampled_span(sequence, turn)
        sampled_T[start:end] = ~np.isnan(turn.logprobs[: end - start])
    trained_T = sequence.loss_mask.astype(bool)
    if (differs := np.flatnonzero(trained_T != sampled_T)).size:
        at = int(differs[0])
        claims = "trained" if trained_T[at] else "context"
        return f"token {at} is {claims}, but the logs say otherwise"
    return ""


def _turn_fault(sequence: TrainingSequence, turn: Turn) -> str:
    start, end = _sampled_span(sequence, turn)
    expected_T = np.concatenate((turn.prompt_ids, turn.sampled_ids))[:end]
    if not np.array_equal(sequence.tokens[:end], expected_T):
        return f"has {end} tokens that are not the first {end} of the sequence"
    logprobs = np.nan_to_num(turn.logprobs[: end - start], nan=0.0)
    if not np.array_equal(sequence.logprobs[start:end], logprobs):
        return f"was sampled at other log-probabilities than those from token {start} on"
    return ""


def _sampled_span(sequence: TrainingSequence, turn: Turn) -> tuple[int, int]:
    """Where in the sequence stands what the turn sampled; of one that was cut, the part that is left."""
    start = len(turn.prompt_ids)
    end = start + len(turn.sampled_ids)
    return start, min(end, len(sequence.tokens)) if TRUNCATED in sequence.flags else end


def _image_fault(sequence: TrainingSequence, turn: Turn, images: Sequence[Image | Unreadable]) -> str:
    """Whether the sequence has other images in the turn's prompt than the request had."""
    end = len(turn.prompt_ids)
    found = [image.sha256 for image in sequence.images if image.token_span[0] < end]
    expected = [image.sha256 if isinstance(image, Image) else "" for image in images]
    if found != expected:
        return f"has {len(expected)} images in its request, which are not the {len(found)} of the sequence"
    return ""
