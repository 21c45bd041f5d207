from pathlib import Path

import numpy as np

from tests.support.logs import answered, write_log
from tests.support.routing import experts, facts, routed
from tests.support.turns import turn
from turnstile.compiler.causes import Explanation
from turnstile.compiler.compilation import Compilation, compile_logs
from turnstile.compiler.export import jsonl
from turnstile.compiler.finding import Finding
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.images.image import PromptImage
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.selection import Selection
from turnstile.compiler.sequence import Parent, TrainingSequence
from turnstile.compiler.sequences import training_sequences
from turnstile.compiler.turn import Turn
from turnstile.compiler.verify import verify
from turnstile.compiler.verify_sequence import broken_promise


def opened(*turns: Turn, rows: int = 0) -> OpenSequence:
    """One sequence of turns that extend each other; row i of its routing names experts i and i + 1."""
    sequence = OpenSequence()
    for each in turns:
        sequence.add(each, np.concatenate((each.prompt_ids, each.sampled_ids)))
    if rows:
        experts = np.array([[[row, row + 1]] for row in range(rows)], np.uint8)
        sequence.routing.add(RoutedRows(0, experts))
    return sequence


def selected(selection: Selection, sequence: OpenSequence) -> list[TrainingSequence]:
    kept = [selection.of(sequence)]
    found = list(training_sequences([sequence], [Explanation("new_prompt", None)], kept))
    assert [broken_promise(each) for each in found] == [""] * len(found)
    return found


def said(selection: Selection, *sequences: OpenSequence) -> list[Finding]:
    return list(selection.findings(sequences, [selection.of(each) for each in sequences]))


TURNS = (
    turn(1, [1, 2], [3, 4], weight_spans=((0, "a"),)),
    turn(
        2,
        [1, 2, 3, 4, 5],
        [6, 7, 8],
        logprobs=[-1, -2, -3],
        weight_spans=((0, "a"), (2, "b")),
        cached_tokens=4,
    ),
)


def test_all_that_a_sequence_holds_is_cut_together() -> None:
    (sequence,) = selected(Selection(max_tokens=7), opened(*TURNS, rows=7))
    assert sequence.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert sequence.logprobs.tolist() == [0, 0, -0.5, -0.5, 0, -1, -2]
    assert sequence.segment_info == ((False, 2), (True, 2), (False, 1), (True, 2))
    assert sequence.weight_versions == ((0, "a"),)
    assert sequence.routed_experts is not None
    assert sequence.routed_experts.tolist() == [[[row, row + 1]] for row in range(6)]
    assert [call.exchange_id for call in sequence.exchanges] == ["e1", "e2"]
    assert sequence.flags == ("truncated",)


def test_turns_of_which_nothing_sampled_is_left_go() -> None:
    for limit in (4, 5):
        (sequence,) = selected(Selection(max_tokens=limit), opened(*TURNS))
        assert sequence.tokens.tolist() == [1, 2, 3, 4]
        assert [call.exchange_id for call in sequence.exchanges] == ["e1"]
        assert (sequence.finish_reasons, sequence.flags) == (("stop",), ("truncated",))


def test_flags_of_turns_that_are_cut_off_go_with_them() -> None:
    aborted = turn(2, [1, 2, 3], [4], flags=("aborted",))
    (sequence,) = selected(Selection(max_tokens=3), opened(turn(1, [1, 2], [3]), aborted))
    assert sequence.flags == ("truncated",)


def test_a_sequence_of_which_nothing_trainable_is_left_stays_out() -> None:
    partial = opened(turn(1, [1, 2], [3, 4], logprobs=[np.nan, -1]))
    for limit, sequence in ((2, opened(*TURNS)), (1, opened(*TURNS)), (3, partial)):
        selection = Selection(max_tokens=limit)
        assert selected(selection, sequence) == []
        assert {(each.kind, each.severity) for each in said(selection, sequence)} == {("too_long", "error")}
        assert len(said(selection, sequence)) == len(sequence.turns)


def test_a_cut_is_said_once_and_a_sequence_of_just_the_limit_is_whole() -> None:
    sequence = opened(*TURNS)
    (finding,) = said(Selection(max_tokens=7), sequence)
    assert (finding.kind, finding.severity, finding.exchange_id) == ("truncated", "warning", "e1")
    assert finding.message == "its sequence has 8 tokens, more than the 7 wanted; it is cut"
    assert said(Selection(max_tokens=8), sequence) == []
    assert selected(Selection(max_tokens=8), sequence)[0].flags == ()


def test_the_sequence_itself_stays_as_it_is() -> None:
    sequence = opened(*TURNS)
    Selection(max_tokens=6).of(sequence)
    assert (len(sequence.tokens_T), sequence.turns) == (8, [*TURNS])


def test_untrusted_routing_is_left_out_where_that_is_not_wanted() -> None:
    untrusted = opened(turn(1, [1], [2]), turn(2, [1, 2, 3], [4], flags=("routing_untrusted",)))
    assert len(selected(Selection(), untrusted)) == 1
    assert selected(Selection(trusted_only=True), untrusted) == []
    kinds = [each.kind for each in said(Selection(trusted_only=True), untrusted)]
    assert kinds == ["routing_untrusted", "routing_untrusted"]
    # what is cut off is not doubted
    assert len(selected(Selection(max_tokens=2, trusted_only=True), untrusted)) == 1


def test_a_sequence_whose_parent_is_left_out_has_none(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1, 2, 3], [4]), answered(2, [1, 2], [5]))
    assert [sequence.parent is None for sequence in compile_logs(log)] == [True, False]
    assert [sequence.parent for sequence in compile_logs(log, max_tokens=3)] == [None]


def test_what_is_shared_with_the_parent_is_no_more_than_there_is(tmp_path: Path) -> None:
    log = write_log(tmp_path, answered(1, [1, 2, 3], [4, 5, 6]), answered(2, [1, 2], [3, 4, 5, 9]))
    _, whole = compile_logs(log)
    _, cut = compile_logs(log, max_tokens=4)
    assert whole.parent is not None and cut.parent is not None
    assert (whole.parent.shared_tokens, cut.parent.shared_tokens) == (5, 4)


MIDDLE = list(range(10, 60))


def test_a_parent_of_which_a_whole_turn_went_shares_what_it_still_has(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        answered(1, [1, 2], [3]),
        answered(2, [1, 2, 3, *MIDDLE], [4]),
        answered(3, [1, 2, 3, *MIDDLE[:20], 7], [8, 9]),
    )
    parent, child = compile_logs(log, max_tokens=30)
    assert (parent.tokens.tolist(), len(child.tokens)) == ([1, 2, 3], 26)
    assert child.parent == Parent(parent.sequence_id, 3, "history_rewritten")
    output = tmp_path / "out.jsonl"
    with jsonl.open_writer(output) as writer:
        for sequence in (parent, child):
            writer.write(sequence)
    assert verify([log, output]).sequences == 2


def test_images_that_were_cut_off_the_parent_are_not_shared() -> None:
    image = PromptImage("0" * 64, "image/png", b"", (3, 1))
    first, second = turn(1, [1, 2], [3]), turn(2, [1, 2, 3, 99, *MIDDLE], [4], images=(image,))
    child = turn(3, [1, 2, 3, 99, 5], [6], images=(image,))
    forest = TrajectoryForest()
    for each in (first, second, child):
        forest.add(each)
    why = [Explanation("new_prompt", None)] * 2
    for limit, shared in ((100, 4), (20, 3)):
        kept = [Selection(max_tokens=limit).of(each) for each in forest.sequences]
        _, found = training_sequences(forest.sequences, why, kept)
        assert found.parent is not None and found.parent.shared_tokens == shared


def test_routing_is_missing_only_of_what_is_kept(tmp_path: Path) -> None:
    told = routed(1, [1, 2], [3, 4, 5], experts(1, 2, 3, 4))
    untold = answered(2, [1, 2, 3, 4, 5, 6], [7], choice_fields={"meta_info": {"cached_tokens": 5}})
    log = write_log(tmp_path, told, untold, facts=facts().as_record())
    kinds = {limit: kinds_of(compile_logs(log, max_tokens=limit)) for limit in (None, 5, 2)}
    assert kinds == {None: ["missing_routing"], 5: ["truncated"], 2: ["too_long", "too_long"]}
    (cut,) = compile_logs(log, max_tokens=5)
    assert cut.routed_experts is not None and cut.routed_experts.tolist() == experts(1, 2, 3, 4).tolist()


def kinds_of(compilation: Compilation) -> list[str]:
    return [finding.kind for finding in compilation.findings]
