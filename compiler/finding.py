"""Findings: what kept data out, or made it doubtful, as values that say where.

An `error` kept something out of the sequences; a `warning` marks what was kept and is doubtful, or what
is known to be missing though nothing was lost. The kinds are listed in docs/findings.md.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

FINDINGS_SUFFIX = ".findings.jsonl"
"""What the name of a file of findings has behind that of the compiled file."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a reader of the sequences should know."""

    kind: str
    severity: Severity
    exchange_id: str | None  # None: about a whole log
    choice: int | None  # None: about every choice of the exchange
    log: str  # name of the .tslog file
    offset: int | None  # of the record, bytes from the start of the file
    message: str  # what, found against expected; never a part of a body

    def as_record(self) -> dict[str, Any]:
        """As it stands in the findings file."""
        return asdict(self)


class Place(NamedTuple):
    """Where a finding is made; makes findings about itself."""

    exchange_id: str
    choice: int | None
    log: str
    offset: int

    def error(self, kind: str, message: str) -> Finding:
        """Something here stays out of the sequences."""
        return Finding(kind, "error", self.exchange_id, self.choice, self.log, self.offset, message)

    def warning(self, kind: str, message: str) -> Finding:
        """Something here is doubtful."""
        return Finding(kind, "warning", self.exchange_id, self.choice, self.log, self.offset, message)

    def at_choice(self, choice: int) -> "Place":
        """The same exchange, one of its choices."""
        return Place(self.exchange_id, choice, self.log, self.offset)
