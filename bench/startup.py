"""CPU time of `turnstile --help`, which everybody waits for who explores the commands."""

import resource
import subprocess
import sysconfig
from pathlib import Path

from figures import Figure, run_alone

RUNS = 5  # the least counts
CPU_S_AT_MOST = 0.3


def measure() -> list[Figure]:
    """The one figure."""
    value = min(_help_cpu_s() for _ in range(RUNS))
    return [Figure(what="turnstile --help", value=value, unit="CPU-s", at_most=CPU_S_AT_MOST)]


def _help_cpu_s() -> float:
    before = _children_cpu_s()
    command = [str(Path(sysconfig.get_path("scripts")) / "turnstile"), "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return _children_cpu_s() - before


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    run_alone(__doc__, measure)
