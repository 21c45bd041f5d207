"""Tells what became of exchanges while their logs are written, each merged once and never anew.

Turns are merged in the order in which their exchanges began. So whoever writes the log says of a group when
the first exchange began that is still under way; those behind it wait, and what is told is what a compile
tells. A record that comes late all the same has its group begun anew. What is read of the weights apart from
the answers has no say here.

The groups used last are kept, KEPT of them; of one that was let go nothing more is told.
"""

from bisect import bisect_left
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from turnstile.compiler.pipeline import Options, readers_for
from turnstile.compiler.standing import Standing, Standings
from turnstile.compiler.tailed_logs import Arrived, TailedLogs
from turnstile.compiler.weight_readings import WeightReadings

KEPT = 256  # groups


@dataclass(slots=True)
class _State:
    """A group as far as it is merged."""

    standings: Standings
    merged: list[Arrived] = field(default_factory=list)  # in causal order
    waiting: list[Arrived] = field(default_factory=list)
    seen: dict[Path, int] = field(default_factory=dict)  # of each log so many of its exchanges


class FollowedLogs:
    """The logs that one writer writes into `directory`, known by its log id. For one thread at a time."""

    def __init__(self, directory: Path, log_id: str) -> None:
        self._opened = ExitStack()
        self._readers = self._opened.enter_context(readers_for(Options()))
        self._tailed = TailedLogs(directory, log_id)
        self._opened.callback(self._tailed.close)
        self._states: OrderedDict[str, _State] = OrderedDict()  # by group, the one used last at the end
        self._let_go: set[str] = set()  # groups

    def close(self) -> None:
        """Closes the logs."""
        self._opened.close()

    def read_on(self, current: Path, size_bytes: int) -> None:
        """Takes in what the logs hold by now: those before `current` whole, that one up to its size."""
        self._tailed.read_on(current, size_bytes)

    def merged(self, group_id: str, before: float) -> list[Standing]:
        """What became of the exchanges of a group that came since the last time and began before then."""
        if group_id in self._let_go:
            return []
        state = self._states.pop(group_id, None) or _State(self._standings(group_id))
        self._states[group_id] = state
        if len(self._states) > KEPT:
            self._let_go.add(self._states.popitem(last=False)[0])
        known = sorted([*state.waiting, *self._tailed.arrived(group_id, state.seen)])
        count = bisect_left(known, before, key=attrgetter("started_at"))
        new, state.waiting = known[:count], known[count:]
        if new and state.merged and new[0] < state.merged[-1]:
            state.standings, new = self._standings(group_id), sorted([*state.merged, *new])
            state.merged = []
        state.merged += new
        items = (self._tailed.replayed(arrived, WeightReadings()) for arrived in new)
        return [told for item in items if (told := state.standings.add(item)) is not None]

    def _standings(self, group_id: str) -> Standings:
        return Standings(group_id, self._readers)
