from tests.support.sequences import sequence
from turnstile.compiler.report.turn_spans import TurnSpan, tells_turns, trained_stretches
from turnstile.compiler.sequence import Call


def test_a_turn_is_its_context_and_what_it_sampled() -> None:
    assert trained_stretches(sequence()) == [TurnSpan(0, 2, 3), TurnSpan(3, 4, 5)]
    assert tells_turns(sequence())


def test_what_two_turns_sampled_side_by_side_stays_apart() -> None:
    both = sequence(segment_info=((False, 1), (True, 2), (True, 2)))
    assert trained_stretches(both) == [TurnSpan(0, 1, 3), TurnSpan(3, 3, 5)]


def test_context_at_the_end_is_a_stretch_of_its_own() -> None:
    assert trained_stretches(sequence(segment_info=((True, 3), (False, 2)))) == [
        TurnSpan(0, 0, 3),
        TurnSpan(3, 5, 5),
    ]


def test_turns_are_not_told_where_the_runs_are_others_or_logprobs_are_missing() -> None:
    assert not tells_turns(sequence(exchanges=(Call("e1", 0),)))
    assert not tells_turns(sequence(flags=("logprobs_partial",)))
