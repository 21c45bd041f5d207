"""The groups of this proxy: what was said of each when it was made, and what has come of it so far.

A group comes into being when it is made or when it is used. Memory is bounded: the GROUPS groups used last
are remembered, of each the ROLLOUTS rollouts seen last. A group that is forgotten begins anew when it is used
again, without its limit and counts; the log keeps all of it.
"""

from asyncio import Lock
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnstile.addon.backends.usage import TokenCounts, token_counts
from turnstile.addon.capture.known_lengths import KnownLengths
from turnstile.addon.tracelog.records import Exchange, Group

GROUPS = 4096
ROLLOUTS = 1024


@dataclass(slots=True)
class GroupState:
    """One group; the counts grow only."""

    group_id: str
    made: Group | None = None  # None: it has only been used
    exchanges: int = 0  # recorded, whatever came of them
    captured: int = 0  # of these: a whole reply with all facts
    incomplete: int = 0  # a whole reply that lacks facts
    refused: int = 0  # answered by the proxy itself
    rollouts: int = 0  # that were named
    prompt_tokens: int = 0  # of the replies that say so
    sampled_tokens: int = 0
    rewards: int = 0
    making: Lock = field(default_factory=Lock)  # held while it is being written that it is made
    lengths: KnownLengths = field(default_factory=KnownLengths)  # of prompts, where there is a limit
    _seen: OrderedDict[str, None] = field(default_factory=OrderedDict)  # rollouts, the latest last

    @property
    def max_trajectory_tokens(self) -> int | None:
        """The longest that a trajectory may get; None: any length."""
        return self.made.max_trajectory_tokens if self.made else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the user said of the group."""
        return self.made.metadata if self.made else {}

    def note(self, exchange: Exchange) -> TokenCounts | None:
        """Counts an exchange that is about to be recorded; gives what its reply says of tokens."""
        self.exchanges += 1
        self.refused += exchange.outcome == "refused"
        if exchange.rollout_id is not None:
            self._note_rollout(exchange.rollout_id)
        if exchange.outcome != "complete" or exchange.status != 200:
            return None
        self.incomplete += bool(exchange.missing)
        self.captured += not exchange.missing
        counts = token_counts(exchange.reply)
        if counts is not None:
            self.prompt_tokens += counts.prompt
            self.sampled_tokens += counts.sampled
        return counts

    def as_json(self) -> dict[str, Any]:
        """As GET /turnstile/groups/{id} shows it."""
        return {
            "group_id": self.group_id,
            "max_trajectory_tokens": self.max_trajectory_tokens,
            "metadata": self.metadata,
            "exchanges": self.exchanges,
            "captured": self.captured,
            "incomplete": self.incomplete,
            "refused": self.refused,
            "rollouts": self.rollouts,
            "prompt_tokens": self.prompt_tokens,
            "sampled_tokens": self.sampled_tokens,
            "rewards": self.rewards,
        }

    def _note_rollout(self, rollout_id: str) -> None:
        self.rollouts += rollout_id not in self._seen
        self._seen[rollout_id] = None
        self._seen.move_to_end(rollout_id)
        if len(self._seen) > ROLLOUTS:
            self._seen.popitem(last=False)


class Groups:
    """All groups that are remembered."""

    def __init__(self, at_most: int = GROUPS) -> None:
        self._at_most = at_most
        self._groups: OrderedDict[str, GroupState] = OrderedDict()  # the one used last at the end

    def find(self, group_id: str) -> GroupState | None:
        """The group, where it is remembered."""
        return self._groups.get(group_id)

    def used(self, group_id: str) -> GroupState:
        """The group, which comes into being where there is none."""
        state = self._groups.get(group_id)
        if state is None:
            state = self._groups[group_id] = GroupState(group_id)
            if len(self._groups) > self._at_most:
                self._groups.popitem(last=False)
        self._groups.move_to_end(group_id)
        return state
