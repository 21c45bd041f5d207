"""What a report of 200 sequences of 8,000 tokens costs: to make, to open in a browser, to look into.

The browser's figures are times and so depend on what else runs; without a Chromium they are left out.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from figures import Figure, run_alone

from turnstile.compiler.report.contents import Contents
from turnstile.compiler.report.page import report_page
from turnstile.compiler.sequence import Call, TrainingSequence

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for the browser that the tests have
from tests.support.chromium import browser_page, chromium

SEQUENCES, TURNS, CONTEXT, SAMPLED = 200, 20, 300, 100
TOKENS = TURNS * (CONTEXT + SAMPLED)
OPEN_S_AT_MOST = 5.0


def measure() -> list[Figure]:
    """The figures of one report."""
    rng = np.random.default_rng(0)
    contents = Contents("bench", [_sequence(number, rng) for number in range(SEQUENCES)], [])
    start = time.process_time()
    page = report_page(contents)
    figures = [
        Figure(what="report: making the page", value=time.process_time() - start, unit="CPU-s"),
        Figure(what="report: its size", value=len(page) / (SEQUENCES * TOKENS), unit="bytes a token"),
    ]
    return [*figures, *_in_browser(page)]


def _in_browser(page: bytes) -> Iterator[Figure]:
    if (executable := chromium()) is None:
        print("report: no chromium here, so the page is not opened", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_bytes(page)
        with browser_page(executable, Path(folder) / "profile") as tab:
            start = time.monotonic()
            tab.open(path)
            opened = time.monotonic()
            tab.run("document.querySelector('[data-sequence]').open = true")
            tab.wait("document.querySelector('.tokens .token')")
            looked = time.monotonic()
            tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            tab.wait(f"document.querySelectorAll('.tokens').length === {SEQUENCES}")
            everything = time.monotonic()
            chips = tab.run("document.querySelectorAll('.tokens .token').length")
    yield Figure(what="report: opening it", value=opened - start, unit="s", at_most=OPEN_S_AT_MOST)
    yield Figure(what="report: opening a sequence", value=looked - opened, unit="s")
    yield Figure(what="report: opening all 200", value=everything - looked, unit="s")
    yield Figure(what="report: tokens in the page then", value=chips, unit=f"of {SEQUENCES * TOKENS:,}")


def _sequence(number: int, rng: np.random.Generator) -> TrainingSequence:
    segments = ((False, CONTEXT), (True, SAMPLED)) * TURNS
    is_trained = np.repeat([trained for trained, _ in segments], [length for _, length in segments])
    return TrainingSequence(
        sequence_id=f"0123456789abcdef-{number * TURNS:06d}.0",
        group_id=f"g{number // 8}",
        rollout_id=f"r{number}",
        tokens=(rng.zipf(1.3, TOKENS) % 150_000).astype(np.int32),
        logprobs=np.where(is_trained, -rng.exponential(0.6, TOKENS), 0.0),
        segment_info=segments,
        weight_versions=((0, "1"),),
        exchanges=tuple(Call(f"0123456789abcdef-{number * TURNS + turn:06d}", 0) for turn in range(TURNS)),
        finish_reasons=("stop",) * TURNS,
        sampling=({"temperature": 1.0},) * TURNS,
    )


if __name__ == "__main__":
    run_alone(__doc__, measure)
