import numpy as np

from turnstile.compiler.finding import Place
from turnstile.compiler.sequence import Call, Parent, TrainingSequence
from turnstile.compiler.summary import Summary

SEQUENCE = TrainingSequence(
    sequence_id="e1.0",
    group_id="g",
    rollout_id=None,
    tokens=np.array([1, 2, 3, 4], np.int32),
    logprobs=np.array([0.0, -0.5, 0.0, -0.5]),
    segment_info=((False, 1), (True, 1), (False, 1), (True, 1)),
    weight_versions=(),
    exchanges=(Call("e1", 0), Call("e2", 0)),
    parent=Parent("e0.0", 1, "sibling"),
    finish_reasons=("stop", "stop"),
    sampling=({}, {}),
)


def test_sequences_and_findings_are_counted() -> None:
    summary = Summary(groups=1, exchanges=3, turns=2)
    summary.add_sequence(SEQUENCE)
    first, second = Place("e1", 0, "a.tslog", 1), Place("e2", None, "a.tslog", 2)
    summary.add_findings([first.error("token_type", ""), first.at_choice(1).error("token_type", "")])
    summary.add_findings([second.warning("undelivered", ""), second.error("undecodable", "")])
    assert summary.as_record() == {
        "groups": 1,
        "exchanges": 3,
        "exchanges_left_out": 2,
        "turns": 2,
        "sequences": 1,
        "trained_tokens": 2,
        "context_tokens": 2,
        "causes": {"sibling": 1},
        "findings": {"error": {"token_type": 2, "undecodable": 1}, "warning": {"undelivered": 1}},
    }
