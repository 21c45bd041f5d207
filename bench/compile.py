"""What compiling costs: from a log on the disk to a file of sequences, and the merging alone.

Figures are prompt ids a second of CPU time of one core: every turn's whole prompt counts, resent or not,
as it is what the log holds. Each run reads its log anew; for the merging alone the turns are decoded from
the log and get arrays of their own, since arrays that lie in one buffer compare faster than real ones.
Every run of a sweep has the same number of calls, prompt ids and sampled ids.
"""

import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from figures import Figure, run_alone
from load import peak_memory_mib
from recording import Place, write_log
from workloads import GROWING, Call, Workload, interleaved

from turnstile.compiler.export import format_named
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.output import write_compilation
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay, Replayed
from turnstile.compiler.turn import Turn
from turnstile.compiler.turns import Texts, turns_of

RUNS = 5  # the least counts
IDS_A_S_AT_LEAST = 10e6
MERGED_IDS_A_S_AT_LEAST = 100e6
FLAT_AT_MOST = 1.3  # time for a prompt id at the far end of a sweep, against its near end
TURNS = (1, 4, 16, 64, 256)
ROLLOUTS = (1, 30, 1_000)

_MILLION = 1e6


def measure() -> list[Figure]:
    """All figures."""
    return [*_throughput(), *_over_turns(), *_over_rollouts(), *_memory()]


def _throughput() -> Iterator[Figure]:
    with _log(interleaved(GROWING), _own_group) as log:
        for suffix, limit in ((".tseq", IDS_A_S_AT_LEAST), (".jsonl", IDS_A_S_AT_LEAST)):
            yield _rate(f"growing: log to {suffix}", GROWING, _compile_s(log, suffix), limit)
        yield _rate("growing: merging alone", GROWING, _merge_s(log), MERGED_IDS_A_S_AT_LEAST)


def _over_turns() -> Iterator[Figure]:
    """256 calls with 16,000 prompt ids on average, in rollouts of few turns or many."""
    costs = []
    for turns in TURNS:
        step = 32_000 // (turns + 1)
        workload = Workload(f"{turns} turns", 256 // turns, turns, step, step - 50, 50)
        with _log(interleaved(workload), _own_group) as log:
            costs.append((workload, _compile_s(log, ".tseq"), _merge_s(log)))
    yield from _sweep([f"turns a rollout: {turns}" for turns in TURNS], costs)


def _over_rollouts() -> Iterator[Figure]:
    """The same 1,000 rollouts, side by side, in groups of few or many.

    All begin with the same 2,000 ids, as attempts at one task do, and have 2 turns.
    """
    workload = Workload("attempts", 1_000, 2, 2_000, 950, 50, attempts=1_000)
    calls = list(interleaved(workload))
    costs = []
    for rollouts in ROLLOUTS:
        with _log(calls, _groups_of(rollouts)) as log:
            costs.append((workload, _compile_s(log, ".tseq"), _merge_s(log)))
    yield from _sweep([f"rollouts a group: {rollouts:,}" for rollouts in ROLLOUTS], costs)


def _memory() -> Iterator[Figure]:
    for times in (1, 4):
        workload = replace(GROWING, sessions=GROWING.sessions * times)
        with _log(interleaved(workload), _own_group) as log:
            mib = _peak_mib(log)
        what = f"growing, {workload.sessions} groups: peak memory of turnstile compile"
        yield Figure(what=what, value=mib, unit="MiB")


def _rate(what: str, workload: Workload, spent_s: float, limit: float | None = None) -> Figure:
    value = workload.prompt_ids / spent_s / _MILLION
    at_least = None if limit is None else limit / _MILLION
    return Figure(what=what, value=value, unit="million prompt ids a CPU-second", at_least=at_least)


def _sweep(names: list[str], costs: list[tuple[Workload, float, float]]) -> Iterator[Figure]:
    """The rates at each point of a sweep, and the cost of an id at its end against that at its start."""
    for name, (workload, compile_s, merge_s) in zip(names, costs, strict=True):
        yield _rate(f"{name}: log to .tseq", workload, compile_s)
        yield _rate(f"{name}: merging alone", workload, merge_s)
    (first, first_s, _), (last, last_s, _) = costs[0], costs[-1]
    yield Figure(
        what=f"{names[-1]} against {names[0].rpartition(' ')[2]}: log to .tseq",
        value=(last_s / last.prompt_ids) / (first_s / first.prompt_ids),
        unit="x the time an id",
        at_most=FLAT_AT_MOST,
    )


@contextmanager
def _log(calls: Iterable[Call], place_of: Callable[[Call], Place]) -> Iterator[Path]:
    """A folder with a log of the calls."""
    with tempfile.TemporaryDirectory() as name:
        write_log(Path(name), calls, place_of)
        yield Path(name)


def _own_group(call: Call) -> Place:
    return Place(f"g-{call.session}", "r")


def _groups_of(rollouts: int) -> Callable[[Call], Place]:
    """Files so many sessions in one group, each as a rollout."""

    def place_of(call: Call) -> Place:
        return Place(f"g-{call.session // rollouts}", f"r-{call.session}")

    return place_of


def _compile_s(log: Path, suffix: str) -> float:
    """CPU seconds from the log to a file of sequences."""
    output = log / f"sequences{suffix}"
    return min(_timed(lambda: _compile(log, output)) for _ in range(RUNS))


def _compile(log: Path, output: Path) -> None:
    with Replay([log]) as replay:
        summary = write_compilation(
            replay, output, format_named(None, output), Options(), lambda exchanges: None
        )
    if summary.errors or summary.warnings or not summary.trained_tokens:
        raise RuntimeError(f"made-up calls did not compile cleanly: {summary}")


def _merge_s(log: Path) -> float:
    """CPU seconds that the forests of all groups take for turns with arrays of their own."""
    groups = _decoded(log)
    return min(
        _timed_merge([[_with_own_arrays(turn) for turn in turns] for turns in groups]) for _ in range(RUNS)
    )


def _timed_merge(groups: list[list[Turn]]) -> float:
    def merge() -> None:
        for turns in groups:
            forest = TrajectoryForest()
            for turn in turns:
                forest.add(turn)

    return _timed(merge)


def _decoded(log: Path) -> list[list[Turn]]:
    """The turns of each group."""
    groups = []
    with Replay([log]) as replay:
        for group_id in replay.groups:
            texts = Texts()
            read = [
                turns_of(item.exchange, item.log, item.offset, texts)
                for item in replay.exchanges_of(group_id)
                if isinstance(item, Replayed)
            ]
            groups.append([turn for each in read for turn in each.turns])
    return groups


def _with_own_arrays(turn: Turn) -> Turn:
    return replace(turn, prompt_ids=turn.prompt_ids.copy(), sampled_ids=turn.sampled_ids.copy())


def _timed(work: Callable[[], None]) -> float:
    """CPU seconds of the work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _peak_mib(log: Path) -> float:
    """The most memory that the command has resident.

    Looked at while it runs: the resource usage of a process that ended counts its parent's memory as well.
    """
    turnstile = Path(sysconfig.get_path("scripts")) / "turnstile"
    command = [str(turnstile), "compile", str(log), "-o", str(log / "sequences.tseq")]
    peak_mib = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(OSError, ValueError, IndexError):  # it has just ended
                peak_mib = max(peak_mib, peak_memory_mib(process.pid))
            time.sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")
    return peak_mib


if __name__ == "__main__":
    run_alone(__doc__, measure)
