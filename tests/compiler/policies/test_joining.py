from pathlib import Path

import pytest

from tests.support.logs import write_log
from tests.support.merging import conversation, joined_by, strictly
from tests.support.talks import COUNT, FACTS, MORE, Talk, answer
from tests.support.tokenizer import tokenizer
from turnstile.compiler.compilation import Compilation, compile_logs
from turnstile.compiler.policies.joining import joined
from turnstile.compiler.policies.realign_and_mask import realigned
from turnstile.compiler.policies.splice_at_end_of_turn import spliced

END = 9


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An answer that came back in other tokens, and another sample of the first prompt."""
    folder = tmp_path_factory.mktemp("log")
    talk, end = Talk(tokenizer(folder / "tokenizer")), "<|im_end|>"
    history = [COUNT, answer("hello"), MORE]
    write_log(
        folder / "traces",
        talk.turn(1, ["Q"], [*"hello", end], [COUNT], answer("hello")),
        talk.turn(2, ["Q", "hello", end, "M"], ["4", end], history, answer("4")),
        talk.turn(3, ["Q"], ["4", end], [COUNT], answer("4")),
        facts=FACTS,
    )
    return folder / "traces"


def told(found: Compilation) -> list[tuple[list[str], list[bool], tuple[str, ...], object]]:
    return [
        (
            [call.exchange_id[-1] for call in each.exchanges],
            [is_trained for is_trained, _ in each.segment_info],
            each.flags,
            each.metadata.get("policy"),
        )
        for each in found
    ]


def test_only_what_came_back_in_other_tokens_is_joined(log: Path) -> None:
    assert told(compile_logs(log)) == [
        (["1"], [False, True], (), None),
        (["2"], [False, True], (), None),
        (["3"], [False, True], (), None),
    ]
    assert told(compile_logs(log, policy="splice-at-end-of-turn")) == [
        (["1", "2"], [False, True, False, True], ("context_not_seen",), "splice-at-end-of-turn"),
        (["3"], [False, True], (), "splice-at-end-of-turn"),
    ]
    assert told(compile_logs(log, policy="realign-and-mask")) == [
        (["2"], [False, True], (), "realign-and-mask"),
        (["3"], [False, True], (), "realign-and-mask"),
    ]


@pytest.mark.parametrize("policy", ["splice-at-end-of-turn", "realign-and-mask"])
def test_parents_are_sequences_that_are_there(log: Path, policy: str) -> None:
    found = compile_logs(log, policy=policy)
    ids = {each.sequence_id for each in found}
    parents = [each.parent for each in found if each.parent is not None]
    assert [(parent.cause, parent.sequence_id in ids) for parent in parents] == [("sibling", True)]


def test_the_same_bytes_come_out_again(log: Path) -> None:
    one, other = (compile_logs(log, policy="splice-at-end-of-turn") for _ in range(2))
    assert [each.tokens.tolist() for each in one] == [each.tokens.tolist() for each in other]


def test_two_continuations_of_one_answer_are_not_both_joined() -> None:
    first, second = conversation(([1], [3, 4, END]), ([1, 34, END, 5], [6, END]))
    _, other = conversation(([1], [3, 4, END]), ([1, 34, END, 7], [6, END]))
    late = (conversation(([0], [0]), ([0], [0]), ([1, 34, END, 7], [6, END]))[2][0], other[1])
    found = joined_by(spliced, [first, second, late])
    assert [len(each.turns) for each in found] == [2, 1]


def test_an_answer_that_another_turn_went_on_from_is_left_alone() -> None:
    first, exact = conversation(([1], [3, 4, END]), ([1, 3, 4, END, 5], [6, END]))
    drifted = conversation(([0], [0]), ([0], [0]), ([1, 34, END, 7], [6, END]))[2][0]
    found = joined_by(spliced, [first, exact, (drifted, exact[1])])
    assert [len(each.turns) for each in found] == [2, 1]


def test_what_is_joined_stays_as_strict_merging_made_it() -> None:
    sequences, explanations = strictly(conversation(([1], [3, 4, END]), ([1, 34, END, 5], [6, END])))
    before = [each.tokens_T.tolist() for each in sequences]
    for join in (spliced, realigned):
        assert len(joined(sequences, explanations, join)[0]) == 1
    assert [each.tokens_T.tolist() for each in sequences] == before
    assert [each.flags for sequence in sequences for each in sequence.turns] == [(), ()]
