"""A second answer that tells the rows which the first leaves out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.chat import choice, compact, completion
from tests.support.logs import write_log
from tests.support.routing import experts, facts, routed
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.compilation import Compilation, compile_logs

PROMPT = list(range(100, 120))
LATER = [*PROMPT, 21, 30, 31]
START = 12


def second(
    prompt: Sequence[int] = LATER, rows: Sequence[int] = range(23), cached: int | None = 22, **told: Any
) -> bytes:
    """A reply to the same prompt with one token to sample; `cached` of its tokens were at hand."""
    sampled = [32]
    return routed(9, prompt, sampled, experts(*rows), meta_info={"cached_tokens": cached} | told).reply


def compiled(folder: Path, all_rows_reply: bytes, first_rows: Sequence[int] = range(20)) -> Compilation:
    """A turn; one that goes on from it, of which the backend had lost all and told only the last rows."""
    first = routed(1, PROMPT, [21], experts(*first_rows), meta_info={"cached_tokens": 0})
    told = experts(*range(START, 24))
    later = routed(2, LATER, [32, 33], told, start=START, meta_info={"cached_tokens": 0})
    later = replace(later, all_rows_reply=all_rows_reply)
    return compile_logs(write_log(folder, first, later, facts=facts().as_record()))


def turns_and_rows(found: Compilation) -> list[tuple[int, list[int] | None]]:
    """Of each sequence the number of its turns, and the numbers of its rows."""
    return [
        (
            len(each.exchanges),
            None if each.routed_experts is None else each.routed_experts[:, 0, 0].tolist(),
        )
        for each in found
    ]


def test_rows_that_are_the_same_as_before_go_on(tmp_path: Path) -> None:
    found = compiled(tmp_path, second())
    assert turns_and_rows(found) == [(2, [*range(24)])]
    assert list(found.findings) == []


def test_rows_that_changed_split_and_are_known(tmp_path: Path) -> None:
    found = compiled(tmp_path, second(), first_rows=[*range(6), 50, *range(7, 20)])
    assert turns_and_rows(found) == [(1, [*range(6), 50, *range(7, 20)]), (1, [*range(24)])]
    (changed,) = found.findings
    assert (changed.kind, changed.message.partition(" names ")[0]) == ("routing_changed", "row 6, layer 0")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"{", "the answer cannot be read: "),
        (compact(completion(choice(0), choice(1))), "the answer has 2 choices, expected one"),
        (second(prompt=[*LATER[:-1], 7]), "the answer is to another prompt"),
        (second(cached=11), "the backend had 11 tokens at hand then, expected 12 at least"),
        (second(cached=None), "the backend had None tokens at hand then, expected 12 at least"),
        (second(num_retractions=1), "the backend computed its prompt more than once"),
        (second(rows=[*range(13), 50, *range(14, 23)]), "row 13 of the answer is another one"),
        (second(rows=range(1)), "the answer tells no rows that could be believed"),
        (
            second(weight_versions=[{"version": "step-2", "start": 0, "end": 1}]),
            "the weights were 'step-1' and 'step-2', expected the same for both answers",
        ),
    ],
)
def test_what_it_cannot_prove_stays_unknown_and_is_said(tmp_path: Path, reply: bytes, why: str) -> None:
    found = compiled(tmp_path, reply)
    assert turns_and_rows(found) == [(1, [*range(20)]), (1, None)]
    told = next(each for each in found.findings if each.kind == "missing_routing")
    assert told.message.startswith(f"all rows were asked for once more, and {why}")
    assert told.message.endswith("; those before 12 are unknown")


def test_rows_behind_what_was_at_hand_are_not_those_of_the_first_answer(tmp_path: Path) -> None:
    found = compiled(tmp_path, second(rows=[*range(15), *range(40, 48)], cached=15))
    assert turns_and_rows(found) == [(2, [*range(24)])]


def test_a_first_answer_without_rows_gets_none(tmp_path: Path) -> None:
    first = replace(routed(1, PROMPT, [21], None), all_rows_reply=second(prompt=PROMPT, rows=range(20)))
    found = compile_logs(write_log(tmp_path, first, facts=facts().as_record()))
    assert turns_and_rows(found) == [(1, None)]


def test_an_answer_is_only_ever_an_exchange_of_the_harness(tmp_path: Path) -> None:
    exchange: Exchange = replace(routed(1, PROMPT, [21], experts(*range(20))), all_rows_reply=second())
    found = compile_logs(write_log(tmp_path, exchange, facts=facts().as_record()))
    assert turns_and_rows(found) == [(1, [*range(20)])]
    assert np.count_nonzero(found.sequences[0].loss_mask) == 1
