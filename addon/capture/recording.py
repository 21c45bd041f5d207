"""Makes the record of an exchange, exactly once: whoever takes the exchange out of `Session.in_flight`."""

from collections.abc import Callable

from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.known_routing import note_no_reply
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.shortcomings import note_own_error
from turnstile.addon.capture.trajectory_limit import note_length
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.records import Exchange, Outcome


async def record(
    session: Session, held: InFlight, outcome: Outcome, make: Callable[[], Exchange]
) -> str | None:
    """Waits for what `make` gives to be safe; returns why it is not in the log, None when it is.

    Where `make` fails, what is known in any case is recorded with `outcome`, and the failure.
    """
    try:
        # taken out when there is room and not before: while it waits for that the proxy may stop
        await session.recorder.record(held.size_bytes, lambda: _taken_out(session, held, outcome, make))
    except LogWriteError as error:
        session.onlookers.show_unrecorded(held.flow, str(error))
        return str(error)
    return None


async def record_early(session: Session, held: InFlight, outcome: Outcome, error: str) -> None:
    """Records an exchange that came to no whole reply."""
    note_no_reply(session, held)
    delivered = outcome in ("backend_failed", "refused")  # of these the harness is told
    await record(session, held, outcome, lambda: held.ended(outcome, delivered=delivered, error=error))


def interrupt(session: Session) -> set[str]:
    """Records what is under way as interrupted, for the proxy stops now; gives the ids of these flows."""
    cut_off = set(session.in_flight)
    for held in list(session.in_flight.values()):
        session.recorder.record_at_once(_taken_out(session, held, "interrupted", held.interrupted))
        if held.stream is not None:
            held.stream.cut()
    return cut_off


def _taken_out(session: Session, held: InFlight, outcome: Outcome, make: Callable[[], Exchange]) -> Exchange:
    del session.in_flight[held.flow.id]
    try:
        exchange = make()
    except Exception as error:
        delivered = outcome not in ("interrupted", "client_left") and held.flow.client_conn.connected
        problem = note_own_error(session, "making a record", error)
        exchange = held.ended(outcome, delivered=delivered, error=problem)
    session.counters.captured[exchange.outcome] += 1
    session.counters.undelivered += not exchange.delivered
    for doing, step in (("counting an exchange", _count), ("showing an exchange", _show)):
        try:
            step(session, held, exchange)
        except Exception as error:  # shall not keep it out of the log
            note_own_error(session, doing, error)
    return exchange


def _count(session: Session, held: InFlight, exchange: Exchange) -> None:
    group = session.groups.used(exchange.group_id)
    note_length(group, held, group.note(exchange))


def _show(session: Session, held: InFlight, exchange: Exchange) -> None:
    session.onlookers.show(held.flow, exchange, session.backend.known)
