"""Trace logs, group by group: what was recorded, in the order in which it began.

Records lie in the order in which exchanges ended, spread over files. The index made here holds a few words
an exchange; bodies are read when their group is. Groups come in the order of their first exchange.
Damage is a finding: whatever is whole is given.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, islice, takewhile
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from turnstile.addon.tracelog.errors import LogCorruptError, TraceLogError
from turnstile.addon.tracelog.reader import LogReader, log_paths, open_log
from turnstile.addon.tracelog.records import Exchange, Group, WeightReading
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.readable_logs import Unreadable, open_readable
from turnstile.compiler.rewards import GivenReward, RewardsByGroup
from turnstile.compiler.weight_readings import WeightReadings

KEPT_OPEN = 4
"""Logs that stay open when a group is done, with what they remember; more only while a group needs them."""


class Located(NamedTuple):
    """Where an exchange lies; sorts in causal order."""

    started_at: float
    exchange_id: str
    log: int  # index into `Replay.logs`
    offset: int


class Replayed(NamedTuple):
    """An exchange as it was read."""

    exchange: Exchange
    log: str
    offset: int
    versions_read: tuple[str, ...]  # the backend's weight versions around it, see WeightReadings.around


class Replay:
    """The exchanges in `paths` (logs or directories of them), of `only_groups` if any are named.

    Use as a context manager. Raises LogFormatError for a path without trace logs and for a log of a newer
    format, LogFormatError or LogCorruptError when nothing of any log can be read.
    """

    def __init__(self, paths: Sequence[Path], only_groups: Collection[str] = ()) -> None:
        self.logs = log_paths(paths)
        self._only_groups = frozenset(only_groups)
        self.findings: list[Finding] = []  # about whole logs, in the order of the logs
        self._open: OrderedDict[int, LogReader] = OrderedDict()  # by index, the latest used last
        self._groups: dict[str, list[Located]] = {}
        self._rewards: dict[str, list[GivenReward]] = {}
        self._made: dict[str, Group] = {}  # what was said of groups, the latest of each
        self._read: dict[str, list[WeightReading]] = {}  # by the id of their log, which its parts share
        self._log_ids: dict[int, str] = {}  # by the index of the log
        unreadable = [error for log in range(len(self.logs)) if (error := self._index(log, only_groups))]
        if len(unreadable) == len(self.logs):
            raise unreadable[0]
        for located in self._groups.values():
            located.sort()
        self._readings = {log_id: WeightReadings(found) for log_id, found in self._read.items()}
        self.groups = sorted(
            self._groups, key=lambda group_id: (self._groups[group_id][0].started_at, group_id)
        )
        self.exchanges = sum(map(len, self._groups.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    def exchanges_of(self, group_id: str) -> Iterator[Replayed | Finding]:
        """The exchanges of a group by (started_at, exchange_id), a finding in the place of a damaged one."""
        for _, copies in groupby(self._groups[group_id], key=attrgetter("exchange_id")):
            yield from self._first_whole(list(copies))
        for reader in self._open.values():
            reader.forget()  # no group rests on another one's exchanges
        while len(self._open) > KEPT_OPEN:
            self._open.popitem(last=False)[1].close()

    def exchange_again(self, group_id: str, started_at: float, exchange_id: str) -> Exchange | None:
        """One exchange of a group, read once more; None when no copy of it is whole."""
        copies = self._groups[group_id]
        at = bisect_left(copies, (started_at, exchange_id))
        for located in takewhile(lambda copy: copy.exchange_id == exchange_id, islice(copies, at, None)):
            try:
                return self._reader(located.log).exchange(located.offset)
            except (LogCorruptError, TypeError, ValueError):
                continue
        return None

    def rewards_of(self, group_id: str) -> list[GivenReward]:
        """The rewards posted for a group, the last one last."""
        return sorted(self._rewards.get(group_id, ()), key=lambda given: given.reward.at)

    def rewards_without_exchange(self, others: RewardsByGroup) -> list[Finding]:
        """Findings for the groups that have rewards, here or in `others`, and no exchange."""
        given = {**self._rewards, **others}
        wanted = given.keys() & self._only_groups if self._only_groups else given.keys()
        absent = sorted(wanted - self._groups.keys())
        return [given[group_id][0].unmatched(f"group {group_id}") for group_id in absent]

    def made(self, group_id: str) -> Group | None:
        """What was said of the group when it was made; None where it was only used."""
        return self._made.get(group_id)

    def _first_whole(self, copies: Sequence[Located]) -> Iterator[Replayed | Finding]:
        """The first copy of an exchange that can be read, and findings for the others."""
        places = [Place(each.exchange_id, None, self.logs[each.log].name, each.offset) for each in copies]
        damaged = list[tuple[Place, str]]()
        for at, (located, place) in enumerate(zip(copies, places, strict=True)):
            try:
                exchange = self._reader(located.log).exchange(located.offset)
            except LogCorruptError as error:
                damaged.append((place, error.reason))
                continue
            except (TypeError, ValueError) as error:  # its checksums hold, and it is no record of ours
                damaged.append((place, f"malformed record ({type(error).__name__})"))
                continue
            for other, reason in damaged:
                yield other.warning(
                    "log_corrupt", f"{reason}; it is whole in {place.log} and read from there"
                )
            versions_read = self._readings[self._log_ids[located.log]].around(exchange)
            yield Replayed(exchange, place.log, place.offset, versions_read)
            for other in places[at + 1 :]:
                yield other.warning(
                    "duplicate_exchange", "this exchange is in another log as well; read once"
                )
            return
        for place, reason in damaged:
            yield place.error("log_corrupt", reason)

    def _index(self, log: int, only_groups: Collection[str]) -> TraceLogError | None:
        """Notes where the exchanges of a log lie; gives the error when nothing of it can be read."""
        name = self.logs[log].name
        reader = open_readable(self.logs[log])
        if isinstance(reader, Unreadable):
            self._about_log(
                name, reader.kind, reader.offset, f"{reader.reason}; nothing of this log was read"
            )
            return reader.error
        with reader:
            if (damage := reader.damage) is not None:
                self._about_log(name, damage.kind, damage.offset, damage.message)
            self._locate(log, reader, only_groups)
        return None

    def _locate(self, log: int, reader: LogReader, only_groups: Collection[str]) -> None:
        log_id = self._log_ids[log] = reader.header.log_id
        read = self._read.setdefault(log_id, [])
        for offset in reader.offsets():
            try:
                summary = reader.summary(offset)
            except LogCorruptError as error:
                self._about_log(reader.path.name, "log_corrupt", error.offset, error.reason)
                continue
            if not only_groups or summary.group_id in only_groups:
                located = Located(summary.started_at, summary.exchange_id, log, summary.offset)
                self._groups.setdefault(summary.group_id, []).append(located)
        try:
            for reward in reader.rewards():
                if not only_groups or reward.group_id in only_groups:
                    given = GivenReward(reward, reader.path.name)
                    self._rewards.setdefault(reward.group_id, []).append(given)
            for group in reader.groups_made():
                before = self._made.get(group.group_id)
                if before is None or before.at <= group.at:
                    self._made[group.group_id] = group
            read.extend(reader.weight_readings())
        except LogCorruptError as error:
            message = f"{error.reason}; rewards, groups and weight readings after it were not read"
            self._about_log(reader.path.name, "log_corrupt", error.offset, message)

    def _about_log(self, log: str, kind: str, offset: int, message: str) -> None:
        self.findings.append(Finding(kind, "error", None, None, log, offset, message))

    def _reader(self, log: int) -> LogReader:
        if log not in self._open:
            self._open[log] = open_log(self.logs[log])
        self._open.move_to_end(log)
        return self._open[log]
