"""Trace logs, group by group: what was recorded, in the order in which it began.

Records lie in the order in which exchanges ended, spread over files. The index made here holds a few words
an exchange; bodies are read when their group is. Groups come in the order of their first exchange.
Damage is a finding: whatever is whole is given.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from turnstile.addon.tracelog.errors import LogCorruptError
from turnstile.addon.tracelog.reader import LogReader, log_paths, open_log
from turnstile.addon.tracelog.records import Exchange, Reward
from turnstile.compiler.finding import Finding, Place

KEPT_OPEN = 4
"""Logs that stay open, with what they keep in memory, when a group is done; more only while a group needs more."""


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


class Replay:
    """The exchanges in `paths` (logs or directories of them), of `only_groups` if any are named.

    Use as a context manager. Raises LogFormatError for a path that holds no trace log, LogCorruptError when
    the only log there is has no readable header.
    """

    def __init__(self, paths: Sequence[Path], only_groups: Collection[str] = ()) -> None:
        self.logs = log_paths(paths)
        self.findings: list[Finding] = []  # about whole logs, in the order of the logs
        self._open: OrderedDict[int, LogReader] = OrderedDict()  # by index, the latest used last
        self._groups: dict[str, list[Located]] = {}
        self._rewards: dict[str, list[Reward]] = {}
        unreadable = [error for log in range(len(self.logs)) if (error := self._index(log, only_groups))]
        if len(unreadable) == len(self.logs):
            raise unreadable[0]
        for located in self._groups.values():
            located.sort()
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
        before = None
        for located in self._groups[group_id]:
            log = self.logs[located.log].name
            if located.exchange_id == before:
                place = Place(located.exchange_id, None, log, located.offset)
                yield place.warning(
                    "duplicate_exchange", "this exchange is in another log as well; read once"
                )
                continue
            before = located.exchange_id
            try:
                yield Replayed(self._reader(located.log).exchange(located.offset), log, located.offset)
            except LogCorruptError as error:
                yield Place(located.exchange_id, None, log, located.offset).error("log_corrupt", error.reason)
        while len(self._open) > KEPT_OPEN:
            self._open.popitem(last=False)[1].close()

    def rewards_of(self, group_id: str) -> list[Reward]:
        """The rewards posted for a group, the last one last."""
        return sorted(self._rewards.get(group_id, ()), key=lambda reward: reward.at)

    def _index(self, log: int, only_groups: Collection[str]) -> LogCorruptError | None:
        """Notes where the exchanges of a log lie; gives the error when it cannot be opened for damage."""
        name = self.logs[log].name
        if not self.logs[log].stat().st_size:
            empty = LogCorruptError(self.logs[log], 0, "the file is empty: its writer ended before it wrote")
            self._about_log(name, "log_torn", 0, empty.reason)
            return empty
        try:
            with open_log(self.logs[log]) as reader:
                if reader.damage is not None:
                    damage = reader.damage
                    self._about_log(name, damage.kind, damage.offset, damage.message)
                self._locate(log, reader, only_groups)
        except LogCorruptError as error:
            self._about_log(
                name, "log_corrupt", error.offset, f"{error.reason}; nothing of this log was read"
            )
            return error
        return None

    def _locate(self, log: int, reader: LogReader, only_groups: Collection[str]) -> None:
        try:
            for summary in reader.summaries():
                if not only_groups or summary.group_id in only_groups:
                    located = Located(summary.started_at, summary.exchange_id, log, summary.offset)
                    self._groups.setdefault(summary.group_id, []).append(located)
            for reward in reader.rewards():
                if not only_groups or reward.group_id in only_groups:
                    self._rewards.setdefault(reward.group_id, []).append(reward)
        except LogCorruptError as error:
            message = f"{error.reason}; what was recorded after it was not read"
            self._about_log(reader.path.name, "log_corrupt", error.offset, message)

    def _about_log(self, log: str, kind: str, offset: int, message: str) -> None:
        self.findings.append(Finding(kind, "error", None, None, log, offset, message))

    def _reader(self, log: int) -> LogReader:
        if log not in self._open:
            self._open[log] = open_log(self.logs[log])
        self._open.move_to_end(log)
        return self._open[log]
