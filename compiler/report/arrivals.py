"""When the replies in trace logs came: what a compiled file no longer tells."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.finding import Finding
from turnstile.compiler.replay import Replay


@dataclass(frozen=True, slots=True)
class Arrival:
    """How an exchange went in time; all in seconds."""

    began_s: float  # after the first exchange of its group
    duration_s: float
    outcome: str
    delivered: bool
    pieces: int  # in which a stream was handed on; 0: the reply was held until it was whole
    first_piece_s: float | None  # after the exchange's start
    longest_pause_s: float | None  # between two pieces

    def __str__(self) -> str:
        """In words, for the heading of a turn."""
        said = [f"began at {self.began_s:,.2f} s", f"took {self.duration_s:,.2f} s"]
        if self.first_piece_s is not None:
            said.append(f"first of {self.pieces:,} pieces after {self.first_piece_s:,.2f} s")
        if self.longest_pause_s is not None:
            said.append(f"longest pause {self.longest_pause_s:,.2f} s")
        if self.outcome != "complete":
            said.append(self.outcome)
        return ", ".join(said if self.delivered else [*said, "never delivered"])


def arrivals_in(replay: Replay) -> dict[str, Arrival]:
    """The arrivals of all exchanges that can be read, by their ids."""
    found: dict[str, Arrival] = {}
    for group_id in replay.groups:
        items = replay.exchanges_of(group_id)
        exchanges = (item.exchange for item in items if not isinstance(item, Finding))
        found |= _of_group(exchanges)
    return found


def _of_group(exchanges: Iterable[Exchange]) -> dict[str, Arrival]:
    found: dict[str, Arrival] = {}
    first: float | None = None
    for exchange in exchanges:
        first = exchange.started_at if first is None else first
        times_s = [arrival.after_s for arrival in exchange.arrivals]
        pauses_s = [after - before for before, after in pairwise(times_s)]
        found[exchange.exchange_id] = Arrival(
            began_s=exchange.started_at - first,
            duration_s=exchange.duration_s,
            outcome=exchange.outcome,
            delivered=exchange.delivered,
            pieces=len(times_s),
            first_piece_s=times_s[0] if times_s else None,
            longest_pause_s=max(pauses_s, default=None),
        )
    return found
