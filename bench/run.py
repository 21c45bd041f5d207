"""Runs the benchmarks, all or those that are named, and prints one table: `python bench/run.py [NAME]...`.

Figures are CPU time, memory and bytes, so that a busy machine disturbs them little, and the delays of
`streams`, which it disturbs much; the best are taken where little else runs. A missed target is said and
changes no exit code: a benchmark is not a test.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

from figures import Figure, save, table

BENCHMARKS = (
    "machine", "startup", "log_size", "compile", "report", "capture", "images", "launcher", "streams",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args()
    if unknown := {*options.names} - {*BENCHMARKS}:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    for name in options.names or BENCHMARKS:
        start = time.monotonic()
        figures += importlib.import_module(name).measure()
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(table(figures))
    if options.json:
        save(options.json, figures)


if __name__ == "__main__":
    main()
