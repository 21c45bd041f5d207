"""Finds and explains the splits of a log, one group at a time.

A group is compiled as always; then, for each sequence that did not go on an earlier one, the exchanges of two
turns are read again: its first, and the earlier one in whose tokens it left. If there is anything to explain
by texts, the group's answers are read once more for those that they tell, against which a tokenizer is held.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from turnstile.compiler.causes import Explanation
from turnstile.compiler.explain.checked_tokenizer import CheckedTokenizer
from turnstile.compiler.explain.kind import Verdict
from turnstile.compiler.explain.kinds import by_cause, by_comparison
from turnstile.compiler.explain.pair import Pair
from turnstile.compiler.explain.parting import parting
from turnstile.compiler.explain.said import Said, said_in
from turnstile.compiler.explain.said_difference import resends
from turnstile.compiler.explain.split import AROUND, Side, Split
from turnstile.compiler.explain.token_texts import LearnedTexts, TokenTexts, spelling
from turnstile.compiler.open_sequence import OpenSequence, Tokens
from turnstile.compiler.pipeline import CompiledGroup, Options, Progress, compile_groups
from turnstile.compiler.repeated_tokens import RepeatedTokens
from turnstile.compiler.replay import Replay
from turnstile.compiler.sequence import Parent
from turnstile.compiler.sequences import sequence_id_of
from turnstile.compiler.token_tree import equal_front
from turnstile.compiler.turn import Turn
from turnstile.compiler.wording import reply_digest


def splits_of(
    replay: Replay,
    options: Options,
    tokenizer: CheckedTokenizer | None,
    progress: Progress = lambda exchanges: None,
) -> Iterator[Split]:
    """The splits of every group, in the order of the sequences."""
    for group in compile_groups(replay, options, progress):
        yield from _Group(group, replay, tokenizer).splits()


@dataclass(frozen=True, slots=True)
class _Start:
    """A sequence and how it began."""

    sequence: OpenSequence
    why: Explanation
    parent: Parent | None  # as it is written
    repeated_tokens: int

    @property
    def turn(self) -> Turn:
        return self.sequence.turns[0]


class _Group:
    """One group, compiled."""

    def __init__(self, group: CompiledGroup, replay: Replay, tokenizer: CheckedTokenizer | None) -> None:
        self._replay = replay
        self._group_id = group.group_id
        self._tokenizer = tokenizer
        self._texts: TokenTexts | None = None
        self._starts = list(_starts(group))
        self._owners = {id(turn): each for each in group.merged for turn in each.turns}
        self._turns = sorted(
            (turn for each in group.merged for turn in each.turns),
            key=lambda turn: (turn.started_at, turn.exchange_id, turn.choice),
        )
        self._by_answer = defaultdict[tuple[str | None, bytes], list[Turn]](list)
        for turn in self._turns:
            if turn.wording is not None:
                self._by_answer[turn.rollout_id, turn.wording.reply].append(turn)

    def splits(self) -> Iterator[Split]:
        """Its splits in the order of the sequences."""
        for start in self._starts:
            refusal, pair = start.sequence.refusal, None
            verdict = by_cause(start.why, refusal.message if refusal is not None else "")
            if verdict is None:
                pair = self._pair(start)
                verdict = by_comparison(pair) if pair is not None else _NOTHING_SHARED
            if start.parent is not None or verdict.kind != "new_prompt":
                yield _split(start, verdict, pair)

    def _pair(self, start: _Start) -> Pair | None:
        """The turns to compare; None where nothing shows that the later one goes on another."""
        later_said = self._said(start.turn)
        found = self._left(start, later_said)
        if found is None:
            return None
        owner, earlier = found
        earlier_T = np.concatenate((earlier.prompt_ids, earlier.sampled_ids))
        parts, texts = parting(earlier_T, start.turn.prompt_ids), self._texts_of_group()
        return Pair(
            earlier=earlier,
            earlier_T=earlier_T,
            later=start.turn,
            is_first=earlier is owner.turns[0],
            parting=parts,
            spelling=spelling(earlier_T.tolist(), start.turn.prompt_ids.tolist(), parts.start, texts),
            earlier_said=self._said(earlier),
            later_said=later_said,
            texts=texts,
        )

    def _left(self, start: _Start, later_said: Said) -> tuple[OpenSequence, Turn] | None:
        """The sequence that was left, and the turn in whose tokens."""
        if start.why.about is not None:
            owner = self._owners[id(start.why.about)]
            shared = equal_front(owner.tokens_T, start.turn.prompt_ids)
            if shared == len(owner.tokens_T) and start.sequence.parent is not None:
                owner, shared = start.sequence.parent, start.sequence.shared_tokens
            return owner, owner.turn_at(shared)
        if start.why.cause != "new_prompt" and start.sequence.parent_turn is not None:
            assert start.sequence.parent is not None
            return start.sequence.parent, start.sequence.parent_turn
        earlier = self._answer_resent(start.turn, later_said)
        if earlier is None or not resends(self._said(earlier), later_said):
            return None
        owner = self._owners[id(earlier)]
        return owner, owner.turn_at(equal_front(owner.tokens_T, start.turn.prompt_ids))

    def _answer_resent(self, turn: Turn, said: Said) -> Turn | None:
        """Of the rollout's earlier turns the latest with the last answer in `said` that one of them gave."""
        for message in reversed(said.messages):
            if isinstance(message, dict) and message.get("role") == "assistant":
                given = self._by_answer.get((turn.rollout_id, reply_digest(message)), [])
                before = bisect_left(given, turn.started_at, key=lambda each: each.started_at)
                if before:
                    return given[before - 1]
        return None

    def _said(self, turn: Turn) -> Said:
        exchange = self._replay.exchange_again(self._group_id, turn.started_at, turn.exchange_id)
        return Said() if exchange is None else said_in(exchange, turn.choice)

    def _texts_of_group(self) -> TokenTexts:
        if self._texts is None:
            learned = LearnedTexts()
            for turn in self._turns:
                exchange = self._replay.exchange_again(self._group_id, turn.started_at, turn.exchange_id)
                if exchange is not None:
                    learned.learn(exchange, turn.choice, turn.sampled_ids.tolist())
            if self._tokenizer is not None:
                self._tokenizer.check(learned)
            self._texts = self._tokenizer or learned
        return self._texts


_NOTHING_SHARED = Verdict("new_prompt", "no sampled token of an earlier turn is shared")


def _starts(group: CompiledGroup) -> Iterator[_Start]:
    repeated = RepeatedTokens()
    for sequence, why, written in zip(group.merged, group.explanations, group.sequences, strict=True):
        yield _Start(sequence, why, written.parent, repeated.add(written.tokens, written.loss_mask))


def _split(start: _Start, verdict: Verdict, pair: Pair | None) -> Split:
    parent, turn = start.parent, start.turn
    split = Split(
        sequence_id=sequence_id_of(turn),
        group_id=turn.group_id,
        rollout_id=turn.rollout_id,
        parent_id=parent.sequence_id if parent is not None else None,
        cause=start.why.cause,
        kind=verdict.kind,
        fact=verdict.fact,
        shared_tokens=parent.shared_tokens if parent is not None else 0,
        repeated_tokens=start.repeated_tokens,
    )
    if pair is None:
        return split
    found, spelled = pair.parting, pair.spelling
    ends = (found.earlier_end, found.later_end)
    if verdict.kind == "retokenized":
        ends = (spelled.earlier_end, spelled.later_end)
    return replace(
        split,
        shared_tokens=found.start,
        earlier=_side(pair.earlier, pair.earlier_T, found.start, ends[0]),
        later=_side(turn, turn.prompt_ids, found.start, ends[1]),
    )


def _side(turn: Turn, path_T: Tokens, start: int, end: int) -> Side:
    return Side(
        turn.exchange_id,
        turn.choice,
        before=path_T[max(0, start - AROUND) : start].tolist(),
        differing=path_T[start:end].tolist(),
        behind=path_T[end : end + AROUND].tolist(),
    )
