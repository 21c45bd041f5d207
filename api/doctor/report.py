"""What a server was found to give, and what to do about what it does not."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "missing", "off", "unknown"]
"""ok       it is there
missing  it is not there, so a capture of this server is incomplete
off      it is not there, and capture does without it
unknown  it could not be found out
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for."""

    name: str
    status: Status
    found: str  # in words
    advice: str = ""  # the flag, option or version that brings it; "" where there is nothing to do


@dataclass(frozen=True, slots=True)
class Report:
    """All that was looked for at one server."""

    url: str
    kind: str  # turnstile, sglang, vllm, router, unknown
    version: str | None
    checks: tuple[Check, ...]

    @property
    def complete(self) -> bool:
        """Whether a capture of this server lacks nothing."""
        return not any(check.status == "missing" for check in self.checks)

    def as_record(self) -> dict[str, Any]:
        """As `turnstile doctor --json` prints it."""
        checks = [asdict(check) for check in self.checks]
        return {
            "url": self.url,
            "kind": self.kind,
            "version": self.version,
            "complete": self.complete,
            "checks": checks,
        }
