from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.link_tree import ROOT
from tests.support.chat import completion
from tests.support.logs import answered, answered_choice, replied, write_log
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.replay import Replay
from turnstile.compiler.standing import Standing, standings_of

TOOL_LOOP = ROOT / "sample_traces" / "tool_loop.tslog"


def standings(*logs: Path) -> Sequence[Standing]:
    with Replay(logs) as replay:
        return [*standings_of(replay).values()]


def said_of(folder: Path, *exchanges: Exchange) -> list[tuple[str, int | None, str | None, str | None]]:
    """(exchange, turn, split, left), exchanges by the last digit of their ids."""
    write_log(folder, *exchanges)
    found = standings(folder)
    return [(each.exchange_id[-1], each.turn, each.split, each.left and each.left[-1]) for each in found]


def test_turns_are_counted_by_rollout_and_splits_told_within_it() -> None:
    log = "5fb7d2a4cbd42d00-00000"
    assert standings(TOOL_LOOP) == [
        Standing(f"{log}1", 1),
        Standing(f"{log}2", 2),
        Standing(f"{log}3", 3),
        Standing(f"{log}4", 1),
        Standing(f"{log}5", 2, "retokenized", f"{log}4"),
        Standing(f"{log}6", 3, "retokenized", f"{log}5"),
    ]


def test_what_gives_no_turn_is_not_counted_and_its_findings_are_told(tmp_path: Path) -> None:
    failed = answered(1, [1, 2], [3], status=500)
    write_log(tmp_path, failed, answered(2, [1, 2], [3]), answered(3, [1, 2, 3, 4], [5], delivered=False))
    assert [(each.turn, each.findings) for each in standings(tmp_path)] == [
        (None, ("upstream_error",)),
        (1, ()),
        (2, ("undelivered",)),
    ]


def test_a_named_rollout_that_starts_anew_is_split_whatever_the_cause(tmp_path: Path) -> None:
    turns = [([1, 2], [3]), ([1, 2], [4]), ([7, 8], [9]), ([1, 2, 3, 5], [6])]
    of_rollout = [answered(at, *ids, rollout_id="r") for at, ids in enumerate(turns, 1)]
    assert said_of(tmp_path, *of_rollout) == [
        ("1", 1, None, None),
        ("2", 2, "sibling", "1"),
        ("3", 3, "new_prompt", None),
        ("4", 4, None, None),
    ]


def test_without_a_rollout_new_prompts_and_samples_are_no_splits(tmp_path: Path) -> None:
    turns = [([1, 2], [3, 4]), ([1, 2], [4]), ([7, 8], [9]), ([1, 2, 3, 5], [6])]
    assert said_of(tmp_path, *(answered(at, *ids) for at, ids in enumerate(turns, 1))) == [
        ("1", 1, None, None),
        ("2", 2, None, None),
        ("3", 3, None, None),
        ("4", 4, "history_rewritten", "1"),
    ]


@pytest.mark.parametrize("rollout_id", [None, "r"])
def test_the_choices_of_an_exchange_are_no_splits_of_each_other(
    tmp_path: Path, rollout_id: str | None
) -> None:
    reply = completion(*(answered_choice(at, [1, 2, 3, 4], [at + 5]) for at in range(3)))
    first, second = answered(1, [1, 2], [3], rollout_id=rollout_id), replied(2, reply, rollout_id=rollout_id)
    assert said_of(tmp_path, first, second) == [("1", 1, None, None), ("2", 2, None, None)]


def test_what_another_rollout_had_before_is_no_split(tmp_path: Path) -> None:
    first, second = (answered(at, [1, 2], [at + 2], rollout_id=f"r{at}") for at in (1, 2))
    assert said_of(tmp_path, first, second) == [("1", 1, None, None), ("2", 1, None, None)]
