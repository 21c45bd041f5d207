"""Bytes and CPU time that the trace log takes, beside the same bodies raw and compressed in simpler ways.

Every turn resends its history and is readable in the log once written. Sizes are for a unique token: every
id of the sessions' final sequences counted once. Without proxy: the writer alone.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard
from figures import Figure, run_alone
from recording import Place, exchanges, size_bytes
from workloads import GROWING, MANY, Call, Workload, interleaved

from turnstile.addon.tracelog.writer import LogWriter

BYTES_AT_MOST = {GROWING: 14.0, MANY: 20.0}
CPU_MS_AT_MOST = 0.6
RUNS = 2  # the least CPU time counts
_WINDOW_LOG = 27  # 128 MiB


def measure() -> list[Figure]:
    """The figures of both workloads."""
    return [figure for workload in BYTES_AT_MOST for figure in _of_workload(workload)]


def _of_workload(workload: Workload) -> Iterator[Figure]:
    turns = workload.sessions * workload.turns
    size, cpu_s = min((_trace_log(workload) for _ in range(RUNS)), key=lambda run: run[1])
    shown = f"{workload.name}, {workload.sessions:,} sessions x {workload.turns} turns"
    a_token = "bytes a unique token"
    yield Figure(
        what=f"{shown}: trace log",
        value=size / workload.unique_ids,
        unit=a_token,
        at_most=BYTES_AT_MOST[workload],
    )
    yield Figure(
        what=f"{shown}: writing it", value=cpu_s / turns * 1000, unit="CPU-ms a turn", at_most=CPU_MS_AT_MOST
    )
    for way, stored_size in _other_ways(workload):
        yield Figure(what=f"{workload.name}: {way}", value=stored_size / workload.unique_ids, unit=a_token)


def _trace_log(workload: Workload) -> tuple[int, float]:
    """(bytes on the disk, CPU seconds of writing) of all turns."""
    with tempfile.TemporaryDirectory() as name:
        writer = LogWriter(Path(name), program="bench")
        cpu_s = 0.0
        for exchange in exchanges(interleaved(workload), writer.log_id, _own_group):
            start = time.process_time()
            writer.write([exchange])
            cpu_s += time.process_time() - start
        writer.close()
        return size_bytes(Path(name)), cpu_s


def _own_group(call: Call) -> Place:
    return Place(f"g-{call.session}")


def _other_ways(workload: Workload) -> Iterator[tuple[str, int]]:
    """(how, bytes) for the bodies of all turns in the same order."""
    frames = zstandard.ZstdCompressor(level=3)
    windowed = zstandard.ZstdCompressionParameters.from_level(3, window_log=_WINDOW_LOG, enable_ldm=True)
    stream = zstandard.ZstdCompressor(compression_params=windowed).compressobj()
    ways: dict[str, Callable[[bytes], int]] = {
        "raw bodies": len,
        "zstd -3, every body by itself": lambda body: len(frames.compress(body)),
        "zstd -3 --long=27, one stream, readable at its end only": lambda body: len(stream.compress(body)),
    }
    sizes = dict.fromkeys(ways, 0)
    for call in interleaved(workload):
        for body in (call.request, call.reply):
            for way, stored in ways.items():
                sizes[way] += stored(body)
    sizes[next(reversed(ways))] += len(stream.flush())
    yield from sizes.items()


if __name__ == "__main__":
    run_alone(__doc__, measure)
