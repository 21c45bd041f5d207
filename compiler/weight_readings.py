"""What the backend said of its weights around an exchange whose answer does not tell them.

A stream tells no weight version, so the proxy asks the backend apart from it, when nothing waits for it. Such
a reading is not the answer's own word: it never enters `weight_versions`. A version counts as read when all
readings from the last that was answered before the exchange began to the first that was asked after it had
ended say the same.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate, groupby

from turnstile.addon.tracelog.records import Exchange, WeightReading


class WeightReadings:
    """The readings of one proxy; those in which the backend told no version count for nothing."""

    def __init__(self, readings: Iterable[WeightReading] = ()) -> None:
        told = sorted(
            (reading.asked_at, reading.answered_at, reading.weight_version)
            for reading in readings
            if reading.weight_version is not None
        )
        self._asked = [asked_at for asked_at, _, _ in told]
        self._all_answered = list(accumulate((answered_at for _, answered_at, _ in told), max))
        self._versions = [version for _, _, version in told]

    def around(self, exchange: Exchange) -> tuple[str, ...]:
        """The versions that were read around the exchange, neighbours with the same one joined.

        One: it was read before and after. Several: it moved. None: it was not read before, or not after.
        """
        before = bisect_right(self._all_answered, exchange.started_at) - 1
        after = bisect_left(self._asked, exchange.started_at + exchange.duration_s)
        if before < 0 or after == len(self._asked):
            return ()
        return tuple(version for version, _ in groupby(self._versions[before : after + 1]))
