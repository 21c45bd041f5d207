from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.logs import write_log
from tests.support.routing import bare_rows, encoded, experts, facts, routed, rows
from tests.support.turns import turn
from turnstile.compiler.compilation import Compilation, compile_logs
from turnstile.compiler.finding import Finding
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.routing.outcome import lost_rows, routed_experts_of, routing_changes
from turnstile.compiler.routing.rows import RoutedRows
from turnstile.compiler.turn import Turn

FIRST = turn(1, [1, 2], [3], cached_tokens=0)  # 2 rows
SECOND = turn(2, [1, 2, 3, 4], [5], cached_tokens=3)  # 4 rows


def merged(*told: tuple[Turn, RoutedRows | None]) -> list[OpenSequence]:
    forest = TrajectoryForest()
    for added, its_rows in told:
        forest.add(added, its_rows)
    return forest.sequences


def routing(sequence: OpenSequence) -> Any:
    found = routed_experts_of(sequence)
    return None if found is None else found.tolist()


def messages(findings: Sequence[Finding]) -> list[tuple[str, str, str | None, str]]:
    return [(found.kind, found.severity, found.exchange_id, found.message) for found in findings]


def test_a_sequence_has_a_row_for_every_token_but_the_last() -> None:
    (sequence,) = merged((FIRST, rows(1, 2)), (SECOND, rows(1, 2, 3, 4)))
    assert routing(sequence) == experts(1, 2, 3, 4).tolist()
    assert messages([*routing_changes([sequence]), *lost_rows([sequence])]) == []


def test_rows_of_tokens_in_answers_that_tell_only_new_ones_come_from_those_before() -> None:
    (sequence,) = merged((FIRST, rows(1, 2)), (SECOND, rows(3, 4, start=2)))
    assert routing(sequence) == experts(1, 2, 3, 4).tolist()


def test_without_any_routing_nothing_is_missing() -> None:
    (sequence,) = merged((FIRST, None), (SECOND, None))
    assert (routing(sequence), list(lost_rows([sequence]))) == (None, [])


def test_a_row_that_nobody_told_leaves_out_all() -> None:
    (sequence,) = merged((FIRST, rows(1, 2)), (SECOND, rows(4, start=3)))
    assert routing(sequence) is None
    message = "row 2 of its sequence's 4 rows is unknown, so routed_experts is left out"
    assert messages([*lost_rows([sequence])]) == [("missing_routing", "warning", "e1", message)]


def test_an_end_that_nobody_told_leaves_out_all() -> None:
    (sequence,) = merged((FIRST, rows(1, 2)), (SECOND, None))
    assert routing(sequence) is None
    assert [found.kind for found in lost_rows([sequence])] == ["missing_routing"]


def test_rows_that_one_answer_lacks_may_be_told_by_the_next() -> None:
    third = turn(3, [1, 2, 3, 4, 5, 6], [7], cached_tokens=5)
    (sequence,) = merged((FIRST, rows(1, 2)), (SECOND, None), (third, rows(1, 2, 3, 4, 5, 6)))
    assert routing(sequence) == experts(1, 2, 3, 4, 5, 6).tolist()
    assert list(lost_rows([sequence])) == []


def test_rows_of_an_unknown_shape_are_left_out() -> None:
    (sequence,) = merged((FIRST, bare_rows(1, 2)))
    assert routing(sequence) is None
    message = (
        "rows of 4 ids are known, how many layers and experts a token they are is not, so routed_experts is "
        "left out: name the model's folder with --model"
    )
    assert messages([*lost_rows([sequence])]) == [("routing_shape", "warning", "e1", message)]


def test_another_routing_is_told_of_the_sequence_that_it_started() -> None:
    sequences = merged((FIRST, rows(1, 2)), (SECOND, rows(1, 9, 3, 4)))
    assert [routing(sequence) for sequence in sequences] == [
        experts(1, 2).tolist(),
        experts(1, 9, 3, 4).tolist(),
    ]
    ((kind, severity, exchange_id, message),) = messages([*routing_changes(sequences)])
    assert (kind, severity, exchange_id) == ("routing_changed", "warning", "e2")
    assert message.startswith("row 1, layer 0 names experts [9, 10], before [2, 3]; ")
    assert list(lost_rows(sequences)) == []


def test_a_sequence_that_was_started_for_its_tokens_has_no_other_routing() -> None:
    sequences = merged((FIRST, rows(1, 2)), (turn(2, [1, 2, 9, 9], [5]), rows(1, 2, 3, 4)))
    assert list(routing_changes(sequences)) == []


def compiled(directory: Path, *exchanges: Any, policy: str = "strict") -> Compilation:
    return compile_logs(write_log(directory, *exchanges, facts=facts().as_record()), policy=policy)


def test_a_log_with_routing_compiles_to_sequences_with_routing(tmp_path: Path) -> None:
    first = routed(1, [1, 2], [3], experts(1, 2))
    second = routed(2, [1, 2, 3, 4], [5, 6], experts(2, 3, 4, 5), start=1)
    third = routed(3, [1, 2, 3, 4, 5, 6, 7], [8], experts(5, 6, 7), start=4)
    (sequence,) = found = compiled(tmp_path, first, second, third)
    assert sequence.routed_experts is not None
    assert sequence.routed_experts.tolist() == experts(1, 2, 3, 4, 5, 6, 7).tolist()
    assert (sequence.routed_experts_shape, sequence.flags, found.findings) == ((7, 2, 2), (), ())


def test_one_id_of_one_layer_starts_a_sequence_that_later_turns_go_on(tmp_path: Path) -> None:
    again = experts(1, 2, 3, 4)
    again[0, 1, 1] += 1
    first = routed(1, [1, 2], [3], experts(1, 2))
    second = routed(2, [1, 2, 3, 4], [5], again, meta_info={"cached_tokens": 0})
    third = routed(3, [1, 2, 3, 4, 5, 6], [7], experts(4, 5, 6), start=3)
    found = compiled(tmp_path, first, second, third)
    one, other = found
    assert [len(sequence.exchanges) for sequence in found] == [1, 2]
    assert one.routed_experts is not None and other.routed_experts is not None
    assert one.routed_experts.tolist() == experts(1, 2).tolist()
    assert other.routed_experts.tolist() == [*again.tolist(), *experts(5, 6).tolist()]
    assert other.parent is not None
    assert (other.parent.sequence_id, other.parent.shared_tokens, other.parent.cause) == (
        one.sequence_id,
        3,
        "routing_changed",
    )
    assert [(finding.kind, finding.message) for finding in found.findings] == [
        (
            "routing_changed",
            "row 0, layer 1 names experts [3, 5], before [3, 4]; the row was computed again: the backend had "
            "0 tokens of 4 at hand",
        )
    ]


def test_a_turn_that_contradicts_its_ids_spoils_no_neighbour(tmp_path: Path) -> None:
    first = routed(1, [1, 2], [3], experts(1, 2))
    short = routed(2, [1, 2, 3, 4], [5], experts(1, 2, 3))
    third = routed(3, [1, 2, 3, 4, 5, 6], [7], experts(1, 2, 3, 4, 5, 6))
    found = compiled(tmp_path, first, short, third)
    (sequence,) = found
    assert [call.exchange_id for call in sequence.exchanges] == [first.exchange_id, third.exchange_id]
    assert sequence.segment_info == ((False, 2), (True, 1), (False, 3), (True, 1))
    assert sequence.routed_experts_shape == (6, 2, 2)
    assert [(finding.kind, finding.severity) for finding in found.findings] == [("routing_shape", "error")]


def test_untrusted_routing_flags_its_sequence_and_is_left_out(tmp_path: Path) -> None:
    first = routed(1, [1, 2], [3], experts(1, 2))
    second = routed(2, [1, 2, 3, 4], [5], experts(1, 2, 3, -4))
    found = compiled(tmp_path, first, second)
    (sequence,) = found
    assert (sequence.tokens.tolist(), sequence.flags) == ([1, 2, 3, 4, 5], ("routing_untrusted",))
    assert sequence.routed_experts is None
    assert [finding.kind for finding in found.findings] == ["routing_value", "missing_routing"]


def test_what_a_group_gives_does_not_depend_on_the_groups_beside_it(tmp_path: Path) -> None:
    unknown = facts(model_config=None)
    from_start = routed(1, [1] * 6, [2] * 3, experts(*range(8)), start=4, backend=unknown, group_id="a")
    whole = routed(2, [1] * 7, [2] * 3, experts(*range(9)), backend=unknown, group_id="b")
    log = write_log(tmp_path, from_start, whole, facts=unknown.as_record())
    (alone,) = compile_logs(log, groups=["b"])
    assert [each.sequence_id for each in compile_logs(log) if each.group_id == "b"] == [alone.sequence_id]


def test_every_request_by_itself_has_the_rows_that_it_was_told(tmp_path: Path) -> None:
    first = routed(1, [1, 2], [3], experts(1, 2))
    second = routed(2, [1, 2, 3, 4], [5], experts(1, 2, 3, 4))
    third = routed(3, [1, 2, 3, 4, 5, 6], [7], experts(5, 6), start=4)
    found = compiled(tmp_path, first, second, third, policy="per-request")
    assert [sequence.routed_experts_shape for sequence in found] == [(2, 2, 2), (4, 2, 2), None]
    assert [finding.kind for finding in found.findings] == ["missing_routing"]


def test_a_model_that_is_unknown_leaves_the_shape_unknown(tmp_path: Path) -> None:
    unknown = facts(model_config=None)
    first = routed(1, [1, 2], [3], encoded(experts(1, 2)), backend=unknown)
    found = compile_logs(write_log(tmp_path, first, facts=unknown.as_record()))
    assert found[0].routed_experts is None
    assert [finding.kind for finding in found.findings] == ["routing_shape"]
