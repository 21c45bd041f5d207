from pathlib import Path

from tests.support.exchanges import exchange
from tests.support.logs import answered, stream_events, streamed, write_log
from turnstile.addon.tracelog.records import Arrival as Piece
from turnstile.compiler.replay import Replay
from turnstile.compiler.report.arrivals import Arrival, arrivals_in


def read(*paths: Path) -> dict[str, Arrival]:
    with Replay(paths) as replay:
        return arrivals_in(replay)


def test_times_count_from_the_first_exchange_of_the_group(tmp_path: Path) -> None:
    late = answered(9, [1], [2], started_at=1003.25)
    log = write_log(tmp_path, late, answered(1, [1], [2]), answered(2, [1], [2], group_id="h"))
    found = read(log)
    assert {name[-1]: arrival.began_s for name, arrival in found.items()} == {"1": 0.0, "9": 2.25, "2": 0.0}
    assert str(found[late.exchange_id]) == "began at 2.25 s, took 0.50 s"


def test_a_stream_tells_when_its_pieces_came(tmp_path: Path) -> None:
    events = stream_events([1], [2])
    ends = [len(events[0]), len(b"".join(events[:2])), len(b"".join(events))]
    pieces = tuple(Piece(end, after_s) for end, after_s in zip(ends, (0.125, 0.25, 0.75), strict=True))
    log = write_log(tmp_path, streamed(1, events, arrivals=pieces))
    (found,) = read(log).values()
    assert (found.pieces, found.first_piece_s, found.longest_pause_s) == (3, 0.125, 0.5)
    assert str(found) == (
        "began at 0.00 s, took 0.50 s, first of 3 pieces after 0.12 s, longest pause 0.50 s"
    )


def test_what_did_not_end_well_says_so(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1, status=None, outcome="client_left", delivered=False, reply=b""))
    (found,) = read(log).values()
    assert str(found).endswith(", client_left, never delivered")
