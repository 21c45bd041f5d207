"""How fast and how busy this machine is just now, so that figures of different days can be compared."""

import json
import os
import time

from figures import Figure, run_alone

RUNS = 10  # the least counts
_TEXT = json.dumps([[row * 0.37, row, " token"] for row in range(20_000)])


def measure() -> list[Figure]:
    """The time of a fixed piece of work, and the load before it."""
    load = os.getloadavg()[0]
    return [
        Figure(what="processes that ran in the last minute", value=load, unit=f"on {os.cpu_count()} cores"),
        Figure(what="a fixed piece of work", value=min(_work_ms() for _ in range(RUNS)), unit="CPU-ms"),
    ]


def _work_ms() -> float:
    start = time.process_time()
    json.loads(_TEXT)
    sum(number & 7 for number in range(200_000))
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    run_alone(__doc__, measure)
