"""Rows that a backend computed for answers which give no turn."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.logs import write_log
from tests.support.routing import experts, facts, routed
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.compilation import compile_logs

PROMPT = list(range(100, 120))
CHANGED = [*range(6), 50, *range(7, 20)]  # row 6 is another one than before


def between(**fields: Any) -> Exchange:
    """An exchange whose answer tells that the backend had 5 tokens at hand and computed row 6 otherwise."""
    return replace(routed(2, PROMPT, [22], experts(*CHANGED), meta_info={"cached_tokens": 5}), **fields)


NOTHING_SAMPLED = routed(2, PROMPT, [], experts(*CHANGED[:19]), meta_info={"cached_tokens": 5})
MISCOUNTED = routed(
    2, PROMPT, [22], experts(*CHANGED), meta_info={"cached_tokens": 5, "completion_tokens": 2}
)
NO_REPLY = between(outcome="client_left", delivered=False, reply=b"", status=None)
UNREADABLE = between(reply=b"{")
FAILED = between(reply=b"oops", status=500)
REFUSED = between(reply=b"too long", status=400)
NEVER_SENT = between(reply=b"", status=None, outcome="refused")


def row_6(folder: Path, middle: Exchange, next_start: int = 12) -> list[tuple[list[str], list[int] | None]]:
    """Of each sequence its exchanges and the numbers of row 6: of `middle` between two answers that merge."""
    first = routed(1, PROMPT, [21], experts(*range(20)), meta_info={"cached_tokens": 0})
    told = experts(*range(next_start, 23))
    last = routed(3, [*PROMPT, 21, 30, 31], [32], told, start=next_start, meta_info={"cached_tokens": 20})
    write_log(folder, first, middle, last, facts=facts().as_record())
    compiled = compile_logs(folder)
    return [
        (
            [call.exchange_id[-1] for call in sequence.exchanges],
            None if sequence.routed_experts is None else np.unique(sequence.routed_experts[6]).tolist(),
        )
        for sequence in compiled
    ]


BEFORE = [6, 7, 8, 9]


@pytest.mark.parametrize("middle", [NOTHING_SAMPLED, MISCOUNTED, NO_REPLY, UNREADABLE, FAILED])
def test_rows_that_it_may_have_changed_are_not_told_to_what_follows(tmp_path: Path, middle: Exchange) -> None:
    assert row_6(tmp_path, middle) == [(["1"], BEFORE), (["3"], None)]


@pytest.mark.parametrize("middle", [NOTHING_SAMPLED, NO_REPLY])
def test_an_answer_that_tells_all_rows_shows_whether_they_changed(tmp_path: Path, middle: Exchange) -> None:
    assert row_6(tmp_path, middle, next_start=0) == [(["1", "3"], BEFORE)]


@pytest.mark.parametrize("middle", [REFUSED, NEVER_SENT])
def test_what_was_refused_computed_nothing(tmp_path: Path, middle: Exchange) -> None:
    assert row_6(tmp_path, middle) == [(["1", "3"], BEFORE)]
