"""How the turns of a group become sequences.

strict                 exact-prefix merging, see turnstile.compiler.forest
per-request            every turn is a sequence of its own
realign-and-mask       what came back in other tokens is joined in these, and not trained
splice-at-end-of-turn  what came back in other tokens is joined in those that were sampled, whatever was seen

Only strict and per-request tell what happened. The others are there to be compared with; what they train in a
context that the policy never saw is flagged `context_not_seen`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.policies.joining import Join
from turnstile.compiler.policies.merger import Merger
from turnstile.compiler.policies.per_request import PerRequest
from turnstile.compiler.policies.realign_and_mask import realigned
from turnstile.compiler.policies.splice_at_end_of_turn import spliced


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to make sequences: merging, and perhaps joining what was split."""

    merger: Callable[[], Merger]
    join: Join | None = None  # None: what merging gave stays as it is


POLICIES: Mapping[str, Policy] = {
    "strict": Policy(TrajectoryForest),
    "per-request": Policy(PerRequest),
    "realign-and-mask": Policy(TrajectoryForest, realigned),
    "splice-at-end-of-turn": Policy(TrajectoryForest, spliced),
}
