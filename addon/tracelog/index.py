"""Where the records of one file lie; kept while writing, written at the end, or found by a scan."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any


def _no_offsets() -> array[int]:
    return array("Q")


@dataclass(slots=True)
class Index:
    """Offsets in bytes from the start of the file, each list in file order."""

    exchanges: dict[str, array[int]] = field(default_factory=dict)  # group -> its exchanges
    blobs: dict[bytes, int] = field(default_factory=dict)  # SHA-256 -> blob record
    backends: array[int] = field(default_factory=_no_offsets)
    rewards: array[int] = field(default_factory=_no_offsets)
    weights: array[int] = field(default_factory=_no_offsets)  # weight readings
    groups: array[int] = field(default_factory=_no_offsets)  # what was said of groups

    def add_exchange(self, group_id: str, offset: int) -> None:
        """An exchange of this group lies at `offset`."""
        self.exchanges.setdefault(group_id, _no_offsets()).append(offset)

    def exchange_offsets(self, group_id: str | None = None) -> list[int]:
        """Of one group, or of all."""
        if group_id is not None:
            return list(self.exchanges.get(group_id, ()))
        return sorted(offset for offsets in self.exchanges.values() for offset in offsets)

    def backend_before(self, offset: int) -> int | None:
        """The last backend record before `offset`; None where there is none."""
        found = bisect_left(self.backends, offset)
        return self.backends[found - 1] if found else None

    def cut(self, offset: int) -> None:
        """Forgets all that lies at `offset` and behind."""
        self.blobs = {digest: at for digest, at in self.blobs.items() if at < offset}
        for offsets in (self.backends, self.rewards, self.weights, self.groups, *self.exchanges.values()):
            del offsets[bisect_left(offsets, offset) :]
        self.exchanges = {group_id: offsets for group_id, offsets in self.exchanges.items() if offsets}

    def as_record(self) -> dict[str, Any]:
        """What is written into the file."""
        return {
            "exchanges": {group: offsets.tolist() for group, offsets in self.exchanges.items()},
            "blobs": list(self.blobs.items()),
            "backends": self.backends.tolist(),
            "rewards": self.rewards.tolist(),
            "weights": self.weights.tolist(),
            "groups": self.groups.tolist(),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Index":
        """The inverse of `as_record`."""
        return cls(
            {group: array("Q", offsets) for group, offsets in record["exchanges"].items()},
            dict(record["blobs"]),
            array("Q", record["backends"]),
            array("Q", record["rewards"]),
            array("Q", record.get("weights", ())),
            array("Q", record.get("groups", ())),
        )
