"""A split as a value: a sequence that did not go on an earlier one, and what differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnstile.compiler.explain.kind import Kind
from turnstile.compiler.sequence import Cause

AROUND = 8
"""How many ids before and behind those that differ are told."""


@dataclass(frozen=True, slots=True)
class Side:
    """The ids around the place where two paths part, on one of them."""

    exchange_id: str
    choice: int
    before: Sequence[int]  # at most AROUND, the same on both sides
    differing: Sequence[int]
    behind: Sequence[int]  # at most AROUND


@dataclass(frozen=True, slots=True)
class Split:
    """Why a sequence was started although there was an earlier one."""

    sequence_id: str
    group_id: str
    rollout_id: str | None
    parent_id: str | None  # the sequence that it left, as `compile` names it
    cause: Cause
    kind: Kind
    fact: str  # what shows the kind, without a piece of any text
    shared_tokens: int  # where the two sides part
    repeated_tokens: int  # context of this sequence that stands in an earlier one already
    earlier: Side | None = None  # None: there is nothing that differs, or nothing to compare with
    later: Side | None = None

    def as_record(self) -> dict[str, Any]:
        """As `turnstile explain --json` prints it, but for the texts."""
        return {
            "sequence_id": self.sequence_id,
            "group_id": self.group_id,
            "rollout_id": self.rollout_id,
            "parent": self.parent_id,
            "cause": self.cause,
            "kind": self.kind,
            "fact": self.fact,
            "shared_tokens": self.shared_tokens,
            "repeated_tokens": self.repeated_tokens,
            "earlier": _side_record(self.earlier),
            "later": _side_record(self.later),
        }


def _side_record(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "exchange_id": side.exchange_id,
        "choice": side.choice,
        "before": list(side.before),
        "differing": list(side.differing),
        "behind": list(side.behind),
    }
