"""The counts of a compilation: what went in, what came out, what was found."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turnstile.compiler.finding import Finding
from turnstile.compiler.sequence import TrainingSequence


@dataclass(slots=True)
class Summary:
    """Counts, added up while groups are compiled."""

    groups: int = 0
    exchanges: int = 0
    turns: int = 0
    sequences: int = 0
    trained_tokens: int = 0
    context_tokens: int = 0
    causes: Counter[str] = field(default_factory=Counter)  # why sequences left an earlier one
    errors: Counter[str] = field(default_factory=Counter)  # findings by kind
    warnings: Counter[str] = field(default_factory=Counter)
    exchanges_left_out: int = 0  # of which an error kept something out

    def add_sequence(self, sequence: TrainingSequence) -> None:
        """Counts a sequence that was written."""
        trained = sum(length for is_trained, length in sequence.segment_info if is_trained)
        self.sequences += 1
        self.trained_tokens += trained
        self.context_tokens += len(sequence.tokens) - trained
        if sequence.parent is not None:
            self.causes[sequence.parent.cause] += 1

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Counts the findings of one group, or about whole logs."""
        left_out = set()
        for finding in findings:
            (self.errors if finding.severity == "error" else self.warnings)[finding.kind] += 1
            if finding.severity == "error" and finding.exchange_id is not None:
                left_out.add(finding.exchange_id)
        self.exchanges_left_out += len(left_out)

    def as_record(self) -> dict[str, Any]:
        """As `turnstile compile --json` prints it."""
        return {
            "groups": self.groups,
            "exchanges": self.exchanges,
            "exchanges_left_out": self.exchanges_left_out,
            "turns": self.turns,
            "sequences": self.sequences,
            "trained_tokens": self.trained_tokens,
            "context_tokens": self.context_tokens,
            "causes": dict(sorted(self.causes.items())),
            "findings": {
                "error": dict(sorted(self.errors.items())),
                "warning": dict(sorted(self.warnings.items())),
            },
        }
