from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.routing import rows
from tests.support.turns import turn
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.routing.changes import RowChanges
from turnstile.compiler.routing.outcome import routed_experts_of


def noted(*changes: tuple[list[int], int]) -> RowChanges:
    """Of each change the rows and the number of the turn."""
    found = RowChanges()
    for changed, number in changes:
        found.note(np.isin(np.arange(max(changed, default=-1) + 2), changed), number)
    return found


def since(changes: RowChanges, number: int, count: int) -> list[int]:
    found = changes.since(number, count)
    assert len(found) == count
    return np.flatnonzero(found).tolist()


def test_nothing_changed_at_first() -> None:
    assert since(noted(), 0, 3) == since(noted(([], 1)), 0, 3) == []


def test_a_row_changed_for_those_who_saw_it_before() -> None:
    changes = noted(([1, 2], 3), ([2, 5], 4))
    assert [since(changes, number, 9) for number in (0, 2, 3, 4)] == [[1, 2, 5], [1, 2, 5], [2, 5], []]
    assert since(changes, 0, 2) == [1]
    assert since(changes, 0, 0) == []


def test_changes_are_cut_with_their_tokens() -> None:
    above = noted(([0, 4], 2))
    below = above.cut(3)
    assert (since(above, 1, 9), since(below, 1, 9)) == ([0], [1])
    above.note(np.ones(2, np.bool_), 5)
    assert (since(above, 2, 9), since(below, 2, 9)) == ([0, 1], [])
    assert since(noted(([1], 2)).cut(7), 0, 9) == []


def test_spans_are_changes_too() -> None:
    changes = noted(([0], 1))
    changes.note_span(2, 4, 2)
    changes.note_span(3, 3, 9)
    assert [since(changes, number, 9) for number in (0, 1, 2)] == [[0, 2, 3], [2, 3], []]
    assert changes.latest == 2


@dataclass
class Server:
    """A backend with a prefix cache, which computes to other experts from time to time."""

    cache: dict[tuple[int, ...], int] = field(default_factory=dict)  # tokens up to the one of a row -> row
    epoch: int = 0

    def evict(self, kept: int) -> None:
        """Forgets all but the first `kept` tokens of every sequence; what follows may be another row."""
        self.cache = {tokens: row for tokens, row in self.cache.items() if len(tokens) <= kept}
        self.epoch += 1

    def answer(self, prompt: list[int], sampled: list[int]) -> tuple[int, list[int]]:
        """(tokens of the prompt that were at hand, the row of each token but the last one)."""
        tokens = (*prompt, *sampled)
        beginnings = [tokens[: at + 1] for at in range(len(tokens) - 1)]
        missing = (at for at, beginning in enumerate(beginnings) if beginning not in self.cache)
        at_hand = min(next(missing, len(beginnings)), len(prompt) - 1)
        for beginning in beginnings[at_hand:]:
            changes = sum(beginning) % 3 != 1  # some rows stay the same whenever they are computed
            self.cache[beginning] = len(beginning) + 10 * self.epoch * changes
        return at_hand, [self.cache[beginning] for beginning in beginnings]


@settings(max_examples=400)
@given(st.data())
def test_no_sequence_has_a_row_that_was_another_one_when_it_sampled(data: st.DataObject) -> None:
    server, forest = Server(), TrajectoryForest()
    histories: list[list[int]] = [[]]
    truth: dict[str, list[int]] = {}
    for number in range(data.draw(st.integers(1, 7))):
        if data.draw(st.integers(0, 2)) == 0:
            server.evict(data.draw(st.integers(0, 3)))
        history = data.draw(st.sampled_from(histories))
        kept = data.draw(st.just(len(history)) | st.integers(0, len(history)))
        more = data.draw(st.lists(st.integers(0, 1), min_size=0 if kept else 1, max_size=2))
        prompt = history[:kept] + more
        sampled = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=2))
        at_hand, found = server.answer(prompt, sampled)
        start = data.draw(st.just(0) | st.integers(0, len(prompt)))
        is_told = data.draw(st.integers(0, 4)) > 0
        if (way := data.draw(st.integers(0, 9))) < 3:  # the answer gives no turn
            if way == 0:
                forest.note_unread()
            else:
                forest.note_computed(None, np.array(prompt, np.int32) if way == 1 else None, at_hand)
            continue
        added = turn(number, prompt, sampled, cached_tokens=at_hand)
        forest.add(added, rows(*found[start:], start=start) if is_told else None)
        truth[added.exchange_id] = found
        histories.append(prompt + sampled)
    for sequence in forest.sequences:
        experts = routed_experts_of(sequence)
        for each in sequence.turns if experts is not None else ():
            real = truth[each.exchange_id]
            assert experts is not None and experts[: len(real), 0, 0].tolist() == real
