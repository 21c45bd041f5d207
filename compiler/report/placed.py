"""Each sequence with what its neighbours and the findings say of it; what the page's parts are made from."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.compiler.finding import Finding
from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.forest_order import parents_of
from turnstile.compiler.report.packing import own_tokens_from
from turnstile.compiler.report.routing_changes import RoutingChanges, routing_changes, row_named_in
from turnstile.compiler.sequence import TrainingSequence


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A sequence in its report."""

    index: int
    sequence: TrainingSequence
    parent: int | None  # index of the one that it left, if that is here
    shared: int  # tokens that both really have at their beginning
    routing: RoutingChanges
    findings: tuple[int, ...]  # indices of those about its calls

    @property
    def trained(self) -> int:
        """The number of its trained tokens."""
        return sum(length for is_trained, length in self.sequence.segment_info if is_trained)


def placed_sequences(contents: Contents) -> list[Placed]:
    """All sequences in the order of the file."""
    sequences, about = contents.sequences, _findings_by_call(contents.findings or ())
    placed = list[Placed]()
    for index, (sequence, parent) in enumerate(zip(sequences, parents_of(sequences), strict=True)):
        other = None if parent is None else sequences[parent]
        shared = own_tokens_from(sequence, other)
        found = {at for call in sequence.exchanges for choice in (call.choice, None)
                 for at in about.get((call.exchange_id, choice), ())}  # fmt: skip
        changes = routing_changes(sequence, other, shared)
        placed.append(Placed(index, sequence, parent, shared, changes, tuple(sorted(found))))
    return placed


def focus_of(placed: Placed, findings: Sequence[Finding]) -> int | None:
    """The row at which a sequence was routed otherwise, from its rows or else from the finding about it."""
    if placed.routing.first is not None:
        return placed.routing.first.row
    messages = (findings[at].message for at in placed.findings if findings[at].kind == "routing_changed")
    return next((row for message in messages if (row := row_named_in(message)) is not None), None)


def sequences_by_finding(placed: Sequence[Placed]) -> dict[int, list[int]]:
    """For each finding that is about calls in sequences, the indices of these."""
    found: dict[int, list[int]] = {}
    for each in placed:
        for at in each.findings:
            found.setdefault(at, []).append(each.index)
    return found


def _findings_by_call(findings: Sequence[Finding]) -> dict[tuple[str, int | None], list[int]]:
    found: dict[tuple[str, int | None], list[int]] = {}
    for at, finding in enumerate(findings):
        if finding.exchange_id is not None:
            found.setdefault((finding.exchange_id, finding.choice), []).append(at)
    return found
