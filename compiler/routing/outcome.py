"""What becomes of a sequence's routing: the rows for its file, or why there are none."""

from collections.abc import Iterable, Iterator, Sequence

from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.rows import Experts
from turnstile.compiler.turn import Turn


def routed_experts_of(sequence: OpenSequence) -> Experts | None:
    """[T - 1, layers, experts a token]; None unless every row and the shape are known.

    The last token's row is told by no answer: it was sampled and never fed to the model.
    """
    rows = sequence.routing.beginning(len(sequence.tokens_T) - 1)
    return rows.experts if rows is not None and rows.has_shape else None


def routing_changes(sequences: Sequence[OpenSequence]) -> Iterator[Finding]:
    """For each sequence that was started because its routing is another: where it differs."""
    for sequence in sequences:
        if (refusal := sequence.refusal) is not None and refusal.cause == "routing_changed":
            yield _place(sequence.turns[0]).warning("routing_changed", refusal.message)


def lost_rows(sequences: Iterable[OpenSequence]) -> Iterator[Finding]:
    """For each sequence, as kept, of which some routing is known, and not all of it: what is missing."""
    for sequence in sequences:
        count = len(sequence.tokens_T) - 1
        if sequence.routing.is_empty:
            continue
        place = _place(sequence.turns[0])
        if (row := sequence.routing.first_unknown(count)) is not None:
            message = f"row {row} of its sequence's {count} rows is unknown, so routed_experts is left out"
            yield place.warning("missing_routing", message)
        elif not sequence.routing.has_shape:
            message = (
                f"rows of {sequence.routing.row_size} ids are known, how many layers and experts a token "
                "they are is not, so routed_experts is left out: name the model's folder with --model"
            )
            yield place.warning("routing_shape", message)


def _place(turn: Turn) -> Place:
    return Place(turn.exchange_id, turn.choice, turn.log, turn.offset)
