"""One log under every policy, in numbers: what merging saves, and what it takes to save more.

The log is read once. Nothing is written.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.pipeline import CompiledGroup, Options, Progress, compile_groups
from turnstile.compiler.policies import POLICIES, Policy
from turnstile.compiler.policies.joining import CONTEXT_NOT_SEEN, joined
from turnstile.compiler.repeated_tokens import RepeatedTokens
from turnstile.compiler.replay import Replay


@dataclass(slots=True)
class Tally:
    """What a policy makes of a log."""

    sequences: int = 0
    trained_tokens: int = 0
    context_tokens: int = 0
    repeated_tokens: int = 0  # context that stands at the beginning of an earlier sequence already
    unseen_tokens: int = 0  # trained in a context that the policy never saw

    def as_record(self) -> dict[str, Any]:
        """As `turnstile compile --policy compare --json` prints it."""
        return asdict(self)


def policy_comparison(
    replay: Replay, options: Options, progress: Progress = lambda exchanges: None
) -> dict[str, Tally]:
    """The tally of every policy, by its name."""
    tallies = {name: Tally() for name in POLICIES}
    for group in compile_groups(replay, options, progress):
        for name, policy in POLICIES.items():
            _add(tallies[name], _sequences(group, policy))
    return tallies


def _sequences(group: CompiledGroup, policy: Policy) -> list[OpenSequence]:
    """What another policy makes of a group that was merged strictly."""
    if policy is POLICIES["strict"]:
        return list(group.merged)
    if policy.join is not None:
        return joined(group.merged, group.explanations, policy.join)[0]
    merger = policy.merger()
    turns = (turn for each in group.merged for turn in each.turns)
    for turn in sorted(turns, key=lambda each: (each.started_at, each.exchange_id, each.choice)):
        merger.add(turn)
    return merger.sequences


def _add(tally: Tally, sequences: list[OpenSequence]) -> None:
    repeated = RepeatedTokens()
    for sequence in sequences:
        trained_T = _trained(sequence)
        trained = int(trained_T.sum())
        tally.sequences += 1
        tally.trained_tokens += trained
        tally.context_tokens += len(trained_T) - trained
        tally.repeated_tokens += repeated.add(sequence.tokens_T, trained_T)
        unseen = (turn for turn in sequence.turns if CONTEXT_NOT_SEEN in turn.flags)
        tally.unseen_tokens += sum(int((~np.isnan(turn.logprobs)).sum()) for turn in unseen)


def _trained(sequence: OpenSequence) -> NDArray[np.bool_]:
    """[T], true where a token was sampled with a known logprob."""
    trained_T = np.zeros(len(sequence.tokens_T), np.bool_)
    for turn in sequence.turns:
        start = len(turn.prompt_ids)
        trained_T[start : start + len(turn.sampled_ids)] = ~np.isnan(turn.logprobs)
    return trained_T
