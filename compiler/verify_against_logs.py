"""Holds sequences against the logs that they were compiled from: what was really sent and sampled.

Independent of merging: each call of a sequence is read from the log again, and must stand in the sequence
where that says, with the log-probabilities, weights and parameters that it was sampled at, and the experts
that its answer told. A row of experts that no answer of its own told, as one that was taken over from a
parent, must be told by some answer of the group whose tokens up to that one are the same.

Not checked: the weights of context, flags, rewards and metadata; which of several answers a row that was
taken over is from; such rows at all where routing of the group cannot be placed without the model's config.
One group is held at a time, and of its routing one answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.errors import InvariantBroken
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.replay import Replay
from turnstile.compiler.routing.reading import RoutingReader
from turnstile.compiler.routing.rows import Experts, RoutedRows
from turnstile.compiler.selection import TRUNCATED
from turnstile.compiler.sequence import Call, TrainingSequence
from turnstile.compiler.token_tree import equal_front
from turnstile.compiler.turn import Turn
from turnstile.compiler.turns import ExchangeTurns, Readers, Texts, turns_of

Logged = tuple[Turn, tuple[Image | Unreadable, ...]]  # a turn, the images of its request in order


def verify_against_logs(sequences: Iterable[TrainingSequence], path: Path, replay: Replay) -> None:
    """Raises InvariantBroken at the first of the sequences, which stand in `path`, that no log bears out."""
    for group_id, in_group in groupby(sequences, key=attrgetter("group_id")):
        members = list(in_group)
        turns, is_placed = dict[Call, Logged](), True
        claims = [_RoutingClaim(each) for each in members if each.routed_experts is not None]
        for read in _exchanges_of_group(replay, group_id):
            is_placed &= all(finding.kind != "routing_shape" for finding in read.findings)
            for turn in read.turns:
                turns[Call(turn.exchange_id, turn.choice)] = turn, read.images
                if (rows := read.routing.get(turn.choice)) is not None:
                    for claim in claims:
                        claim.hold_against(turn, rows)
        misrouted = {id(claim.sequence): claim.fault(is_placed=is_placed) for claim in claims}
        for sequence in members:
            if fault := _fault(sequence, turns) or misrouted.get(id(sequence), ""):
                raise InvariantBroken(f"{path}: sequence {sequence.sequence_id}: {fault}")


def _exchanges_of_group(replay: Replay, group_id: str) -> Iterator[ExchangeTurns]:
    if group_id not in replay.groups:
        return
    texts, readers = Texts(), Readers(RoutingReader(), None)
    for item in replay.exchanges_of(group_id):
        if not isinstance(item, Finding):
            yield turns_of(item.exchange, item.log, item.offset, texts, readers=readers)


class _RoutingClaim:
    """The routing of a sequence that has one, held against one answer of its group after the other."""

    def __init__(self, sequence: TrainingSequence) -> None:
        assert sequence.routed_experts is not None, "a sequence without routing claims none"
        self.sequence = sequence
        self._experts = sequence.routed_experts
        self._untold = np.ones(len(self._experts), np.bool_)  # rows that no answer bore out so far
        self._contradiction = ""

    def hold_against(self, turn: Turn, rows: RoutedRows) -> None:
        """Takes in the rows that the answer of a turn told."""
        call, end = Call(turn.exchange_id, turn.choice), rows.end
        is_own = call in self.sequence.exchanges
        if not is_own:
            if not self._untold[rows.start : end].any():
                return
            tokens_T = np.concatenate((turn.prompt_ids, turn.sampled_ids))
            end = min(end, equal_front(tokens_T, self.sequence.tokens))
        claimed = self._experts[rows.start : end]
        told = rows.experts[: len(claimed)]
        differs = _differing_rows(claimed, told)
        self._untold[rows.start : end] &= differs
        if is_own and differs.any():
            fault = _routing_fault(claimed, told, rows.start + int(differs.argmax()))
            self._contradiction = self._contradiction or f"{_name(call)} {fault}"

    def fault(self, *, is_placed: bool) -> str:
        """What no answer bears out; "" for nothing. Not `is_placed`: some answer's rows could not be read."""
        if self._contradiction or not is_placed or not self._untold.any():
            return self._contradiction
        return f"no answer told the experts in row {int(self._untold.argmax())}"


def _differing_rows(claimed: Experts, told: Experts) -> NDArray[np.bool_]:
    """Which rows name other experts, whatever their order within a layer."""
    if claimed[:1].size != told[:1].size:
        return np.ones(len(claimed), np.bool_)
    one, other = np.sort(claimed, axis=2), np.sort(told.reshape(claimed.shape), axis=2)
    differs: NDArray[np.bool_] = (one != other).any(axis=(1, 2))
    return differs


def _routing_fault(claimed: Experts, told: Experts, row: int) -> str:
    if claimed[:1].size != told[:1].size:
        return f"was told rows of {told[:1].size} expert ids, the sequence has {claimed[:1].size}"
    return f"was told other experts in row {row}"


def _name(call: Call) -> str:
    return f"choice {call.choice} of {call.exchange_id}"


def _fault(sequence: TrainingSequence, turns: Mapping[Call, Logged]) -> str:
    """What the logs do not bear out; "" for nothing."""
    sampled_T = np.zeros(len(sequence.tokens), bool)
    told = zip(sequence.exchanges, sequence.finish_reasons, sequence.sampling, strict=True)
    for number, (call, finish_reason, sampling) in enumerate(told):
        if (logged := turns.get(call)) is None:
            return f"the logs hold no turn for {_name(call)}"
        turn, images = logged
        if not number and sequence.rollout_id != turn.rollout_id:
            return f"{_name(call)} is of another rollout"
        if fault := (
            _turn_fault(sequence, turn)
            or _call_fault(turn, finish_reason, sampling)
            or _image_fault(sequence, turn, images)
        ):
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
    if start >= len(sequence.tokens):
        return f"sampled from token {start} on, the sequence has {len(sequence.tokens)} tokens"
    expected_T = np.concatenate((turn.prompt_ids, turn.sampled_ids))[:end]
    if not np.array_equal(sequence.tokens[:end], expected_T):
        return f"has {end} tokens that are not the first {end} of the sequence"
    logprobs = np.nan_to_num(turn.logprobs[: end - start], nan=0.0)
    if not np.array_equal(sequence.logprobs[start:end], logprobs):
        return f"was sampled at other log-probabilities than those from token {start} on"
    told = [(start + at, version) for at, version in turn.weight_spans]
    if _versions_within(sequence.weight_versions, start, end) != _versions_within(told, start, end):
        return f"was sampled by other weights than those from token {start} on"
    return ""


def _versions_within(spans: Sequence[tuple[int, str]], start: int, end: int) -> list[tuple[int, str]]:
    """The part of the spans that is in [start, end); "" is unknown."""
    at_start = [version for at, version in spans if at <= start] or [""]
    return [(start, at_start[-1]), *((at, version) for at, version in spans if start < at < end)]


def _call_fault(turn: Turn, finish_reason: str, sampling: Mapping[str, Any]) -> str:
    if finish_reason != (turn.finish_reason or ""):
        return f"finished with {turn.finish_reason!r}, not {finish_reason!r}"
    if sampling != turn.sampling:
        sent = turn.sampling
        same = {name for name in sampling.keys() & sent.keys() if sampling[name] == sent[name]}
        differing = ", ".join(sorted((sampling.keys() | sent.keys()) - same))
        return f"was sampled with other parameters: {differing}"
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
