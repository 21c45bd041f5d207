"""What capture has done since the proxy started, for the health page."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Counters:
    """Counts of exchanges; each grows only."""

    captured: Counter[str] = field(default_factory=Counter)  # by outcome; handed to the recorder
    undelivered: int = 0  # of the captured: the harness was gone before the reply could be handed on
    incomplete: int = 0  # of the captured: facts that were asked for are absent
    missing: Counter[str] = field(default_factory=Counter)  # which facts, and from how many exchanges
    uncaptured: Counter[str] = field(default_factory=Counter)  # by endpoint: generates, and is not recorded
    passed_through: int = 0  # anything else that was forwarded
    rejected: int = 0  # answered 4xx by Turnstile for its URL, ids or key; not recorded
    own_errors: int = 0  # exceptions in Turnstile's own code

    def as_json(self) -> dict[str, Any]:
        """Plain values; `captured` is the total, with the outcomes beside it."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: dict(count) if isinstance(count, Counter) else count for name, count in counts.items()}
        return plain | {"captured": self.captured.total(), "outcomes": dict(self.captured)}
