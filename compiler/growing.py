"""Compiles groups while their logs are written: what is new is read and merged, the rest is kept.

Turns are merged in the order in which their exchanges began. So a record that comes later and began earlier
than one that is merged already, as those of rollouts side by side do, has its group compiled anew; a group
whose exchanges come one after the other is not. A new reading of the weights counts for the exchanges that
ended after the reading before it: groups with such a one are compiled anew too. The groups asked for last
are kept, KEPT of them.

The sequences are those that a compile of the same records gives.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self

from turnstile.addon.tracelog.reader import LogReader
from turnstile.addon.tracelog.records import Group, WeightReading
from turnstile.compiler.compilation import Compilation
from turnstile.compiler.pipeline import GroupPasses, Options, readers_for
from turnstile.compiler.replay import Replayed
from turnstile.compiler.rewards import GivenReward
from turnstile.compiler.tailed_logs import Arrived, TailedLogs
from turnstile.compiler.weight_readings import WeightReadings

KEPT = 256  # groups


@dataclass(slots=True)
class _State:
    """A group as far as it is compiled."""

    passes: GroupPasses
    arrived: list[Arrived] = field(default_factory=list)  # in causal order
    seen: dict[Path, int] = field(default_factory=dict)  # of each log so many of its exchanges
    ended_at: float = -inf  # the end of the exchange that ended last, Unix seconds


class GrowingLogs:
    """The logs that one writer writes into `directory`, known by its log id. Use as a context manager.

    For one thread at a time. Raises UnusableFolder for folders in `options` that cannot be used.
    """

    def __init__(self, directory: Path, log_id: str, options: Options) -> None:
        self._options = options
        self._opened = ExitStack()
        self._readers = self._opened.enter_context(readers_for(options))
        self._tailed = TailedLogs(directory, log_id)
        self._opened.callback(self._tailed.close)
        self._states: OrderedDict[str, _State] = OrderedDict()  # by group, the one asked for last at the end
        self._rewards: dict[str, list[GivenReward]] = {}
        self._made: dict[str, Group] = {}
        self._read: list[WeightReading] = []  # those that told a version
        self._taken: dict[Path, tuple[int, int, int]] = {}  # rewards, groups and readings of a log
        self._readings = WeightReadings()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the logs."""
        self._opened.close()

    def read_on(self, current: Path, size_bytes: int) -> None:
        """Takes in what the logs hold by now: those before `current` whole, that one up to its size."""
        self._tailed.read_on(current, size_bytes)
        for path, log in self._tailed.logs.items():
            self._take_other_records(path, log)

    def compiled(self, group_id: str) -> Compilation:
        """What the exchanges of a group give that have been taken in."""
        state = self._states.pop(group_id, None) or _State(self._passes(group_id))
        self._states[group_id] = state = self._up_to_date(group_id, state)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)
        rewards = sorted(self._rewards.get(group_id, ()), key=lambda given: given.reward.at)
        compiled = state.passes.compiled(rewards, self._made.get(group_id))
        sequences = tuple(compiled.sequences)
        return Compilation(sequences, tuple(compiled.findings))

    def _take_other_records(self, path: Path, log: LogReader) -> None:
        rewards, groups, readings = self._taken.get(path, (0, 0, 0))
        new_rewards = list(log.rewards(rewards))
        new_groups = list(log.groups_made(groups))
        new_readings = list(log.weight_readings(readings))
        for reward in new_rewards:
            self._rewards.setdefault(reward.group_id, []).append(GivenReward(reward, path.name))
        self._made |= {group.group_id: group for group in new_groups}
        self._take_readings([reading for reading in new_readings if reading.weight_version is not None])
        self._taken[path] = (
            rewards + len(new_rewards),
            groups + len(new_groups),
            readings + len(new_readings),
        )

    def _take_readings(self, new: Sequence[WeightReading]) -> None:
        """Takes in readings, and lets go of the groups with exchanges for which they may count."""
        if not new:
            return
        first = min(reading.asked_at for reading in new)
        settled = max((each.asked_at for each in self._read if each.asked_at < first), default=-inf)
        for group_id in [group_id for group_id, state in self._states.items() if state.ended_at > settled]:
            del self._states[group_id]
        self._read += new
        self._readings = WeightReadings(self._read)

    def _up_to_date(self, group_id: str, state: _State) -> _State:
        new = sorted(self._tailed.arrived(group_id, state.seen))
        if new and state.arrived and new[0] < state.arrived[-1]:
            state.passes, new = self._passes(group_id), sorted([*state.arrived, *new])
            state.arrived = []
        for arrived in new:
            item = self._tailed.replayed(arrived, self._readings)
            if isinstance(item, Replayed):
                ended_at = item.exchange.started_at + item.exchange.duration_s
                state.ended_at = max(state.ended_at, ended_at)
            state.passes.add(item)
        state.arrived += new
        return state

    def _passes(self, group_id: str) -> GroupPasses:
        return GroupPasses(group_id, self._options, self._readers)
