"""Holds sequences against the logs that they were compiled from: what was really sent and sampled.

Independent of merging: each call of a sequence is read from the log again, and must stand in the sequence
where that says, with the log-probabilities that it was sampled at. One group is held at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from turnstile.compiler.errors import InvariantBroken
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.replay import Replay
from turnstile.compiler.sequence import Call, TrainingSequence
from turnstile.compiler.turn import Turn
from turnstile.compiler.turns import Texts, turns_of

Logged = tuple[Turn, tuple[Image | Unreadable, ...]]  # a turn, the images of its request in order


def verify_against_logs(sequences: Iterable[TrainingSequence], path: Path, replay: Replay) -> None:
    """Raises InvariantBroken at the first of the sequences, which stand in `path`, that no log bears out."""
    for group_id, members in groupby(sequences, key=attrgetter("group_id")):
        turns = _turns_of_group(replay, group_id)
        for sequence in members:
            if fault := _fault(sequence, turns):
                raise InvariantBroken(f"{path}: sequence {sequence.sequence_id}: {fault}")


def _turns_of_group(replay: Replay, group_id: str) -> dict[Call, Logged]:
    if group_id not in replay.groups:
        return {}
    texts, turns = Texts(), dict[Call, Logged]()
    for item in replay.exchanges_of(group_id):
        if not isinstance(item, Finding):
            read = turns_of(item.exchange, item.log, item.offset, texts)
            turns |= {Call(turn.exchange_id, turn.choice): (turn, read.images) for turn in read.turns}
    return turns


def _fault(sequence: TrainingSequence, turns: Mapping[Call, Logged]) -> str:
    """What the logs do not bear out; "" for nothing."""
    sampled_T = np.zeros(len(sequence.tokens), bool)
    for call in sequence.exchanges:
        name = f"choice {call.choice} of {call.exchange_id}"
        if (logged := turns.get(call)) is None:
            return f"the logs hold no turn for {name}"
        turn, images = logged
        if fault := _turn_fault(sequence, turn) or _image_fault(sequence, turn, images):
            return f"{name} {fault}"
        start = len(turn.prompt_ids)
        sampled_T[start : start + len(turn.sampled_ids)] = ~np.isnan(turn.logprobs)
    trained_T = sequence.loss_mask.astype(bool)
    if (differs := np.flatnonzero(trained_T != sampled_T)).size:
        at = int(differs[0])
        claims = "trained" if trained_T[at] else "context"
        return f"token {at} is {claims}, but the logs say otherwise"
    return ""


def _turn_fault(sequence: TrainingSequence, turn: Turn) -> str:
    start, end = len(turn.prompt_ids), len(turn.prompt_ids) + len(turn.sampled_ids)
    expected_T = np.concatenate((turn.prompt_ids, turn.sampled_ids))
    found_T = sequence.tokens[:end]
    if not np.array_equal(found_T, expected_T):
        return f"has {end} tokens that are not the first {end} of the sequence"
    logprobs = np.nan_to_num(turn.logprobs, nan=0.0)
    if not np.array_equal(sequence.logprobs[start:end], logprobs):
        return f"was sampled at other log-probabilities than those from token {start} on"
    return ""


def _image_fault(sequence: TrainingSequence, turn: Turn, images: Sequence[Image | Unreadable]) -> str:
    """Whether the sequence has other images in the turn's prompt than the request had."""
    end = len(turn.prompt_ids)
    found = [image.sha256 for image in sequence.images if image.token_span[0] < end]
    expected = [image.sha256 if isinstance(image, Image) else "" for image in images]
    if found != expected:
        return f"has {len(expected)} images in its request, which are not the {len(found)} of the sequence"
    return ""
