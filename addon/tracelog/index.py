"""Where the records of one file lie; kept while writing, written at the end, or found by a scan."""

from array import array
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Index:
    """Offsets in bytes from the start of the file, each list in file order."""

    exchanges: dict[str, array[int]] = field(default_factory=dict)  # group -> its exchanges
    blobs: dict[bytes, int] = field(default_factory=dict)  # SHA-256 -> blob record
    backends: list[int] = field(default_factory=list)
    rewards: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)  # weight readings

    def add_exchange(self, group_id: str, offset: int) -> None:
        """An exchange of this group lies at `offset`."""
        self.exchanges.setdefault(group_id, array("Q")).append(offset)

    def exchange_offsets(self, group_id: str | None = None) -> list[int]:
        """Of one group, or of all."""
        if group_id is not None:
            return list(self.exchanges.get(group_id, ()))
        return sorted(offset for offsets in self.exchanges.values() for offset in offsets)

    def cut(self, offset: int) -> None:
        """Forgets all that lies at `offset` and behind."""
        self.blobs = {digest: at for digest, at in self.blobs.items() if at < offset}
        self.backends = [at for at in self.backends if at < offset]
        self.rewards = [at for at in self.rewards if at < offset]
        self.weights = [at for at in self.weights if at < offset]
        for group_id, offsets in list(self.exchanges.items()):
            while offsets and offsets[-1] >= offset:
                offsets.pop()
            if not offsets:
                del self.exchanges[group_id]

    def as_record(self) -> dict[str, Any]:
        """What is written into the file."""
        return {
            "exchanges": {group: offsets.tolist() for group, offsets in self.exchanges.items()},
            "blobs": list(self.blobs.items()),
            "backends": self.backends,
            "rewards": self.rewards,
            "weights": self.weights,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Index":
        """The inverse of `as_record`."""
        return cls(
            {group: array("Q", offsets) for group, offsets in record["exchanges"].items()},
            dict(record["blobs"]),
            record["backends"],
            record["rewards"],
            record.get("weights", []),
        )
