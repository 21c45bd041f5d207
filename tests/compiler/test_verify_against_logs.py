import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.images import picture, shown
from tests.support.logs import answered, write_log
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.errors import InvariantBroken
from turnstile.compiler.replay import Replay
from turnstile.compiler.sequence import Call, TrainingSequence
from turnstile.compiler.verify_against_logs import verify_against_logs


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    """Two calls that merge."""
    log = write_log(tmp_path, answered(1, [1, 2], [3]), answered(2, [1, 2, 3, 4], [5, 6]))
    with Replay([log]) as opened:
        yield opened


@pytest.fixture
def sequence(replay: Replay) -> TrainingSequence:
    (compiled,) = compile_logs(replay.logs)
    return compiled


def check(replay: Replay, sequence: TrainingSequence, **changed: Any) -> None:
    verify_against_logs([replace(sequence, **changed)], Path("out.jsonl"), replay)


def test_compiled_sequence_is_borne_out(replay: Replay, sequence: TrainingSequence) -> None:
    check(replay, sequence)


def with_value(values: np.ndarray[Any, Any], at: int, value: float) -> np.ndarray[Any, Any]:
    changed = values.copy()
    changed[at] = value
    return changed


@pytest.mark.parametrize("at", range(6))
def test_any_other_token_is_found_out(replay: Replay, sequence: TrainingSequence, at: int) -> None:
    with pytest.raises(InvariantBroken, match="tokens that are not the first"):
        check(replay, sequence, tokens=with_value(sequence.tokens, at, 9))


def test_other_logprob_is_found_out(replay: Replay, sequence: TrainingSequence) -> None:
    with pytest.raises(InvariantBroken, match="other log-probabilities than those from token 4 on"):
        check(replay, sequence, logprobs=with_value(sequence.logprobs, 5, -9.0))


@pytest.mark.parametrize(
    ("segment_info", "message"),
    [
        (((False, 1), (True, 2), (False, 1), (True, 2)), "token 1 is trained, but the logs say otherwise"),
        (((False, 4), (True, 2)), "token 2 is context, but the logs say otherwise"),
    ],
)
def test_other_mask_is_found_out(
    replay: Replay, sequence: TrainingSequence, segment_info: object, message: str
) -> None:
    with pytest.raises(InvariantBroken, match=message):
        check(replay, sequence, segment_info=segment_info)


def test_call_that_no_log_holds_is_found_out(replay: Replay, sequence: TrainingSequence) -> None:
    with pytest.raises(InvariantBroken, match="hold no turn for choice 0 of elsewhere"):
        check(replay, sequence, exchanges=(Call("elsewhere", 0),))
    with pytest.raises(InvariantBroken, match="hold no turn for choice 0"):
        check(replay, sequence, group_id="elsewhere")


def routed(rows: int, changed: int | None = None) -> dict[str, str]:
    """Rows of 1 layer x 2 experts as a server sends them; row i names i and i + 1, a changed one others."""
    experts = np.array([[row, row + 1] for row in range(rows)], "<i4")
    if changed is not None:
        experts[changed] += 50
    return {"routed_experts": base64.b64encode(experts.tobytes()).decode()}


BACKEND = {"kind": "sglang", "model_config": {"num_hidden_layers": 1, "num_experts_per_tok": 2}}


def test_routing_is_held_against_what_every_turn_was_told(tmp_path: Path) -> None:
    turns = (
        answered(1, [1, 2], [3], choice_fields={"meta_info": routed(2)}),
        answered(2, [1, 2, 3, 4], [5, 6], choice_fields={"meta_info": routed(5)}),
    )
    with Replay([write_log(tmp_path, *turns, facts=BACKEND)]) as replay:
        (sequence,) = compile_logs(replay.logs)
        assert sequence.routed_experts is not None
        check(replay, sequence, routed_experts=sequence.routed_experts[:, :, ::-1])  # the same experts
        for row in (0, 4):
            wrong = sequence.routed_experts.copy()
            wrong[row, 0, 0] = 99
            with pytest.raises(InvariantBroken, match=f"choice 0 of .* was told other experts in row {row}"):
                check(replay, sequence, routed_experts=wrong)
        with pytest.raises(InvariantBroken, match="rows of 2 expert ids, the sequence has 4"):
            check(replay, sequence, routed_experts=np.zeros((5, 2, 2), np.uint8))


def test_a_sequence_that_was_cut_is_borne_out(tmp_path: Path) -> None:
    with Replay([write_log(tmp_path, answered(1, [1, 2], [3, 4, 5]))]) as replay:
        (cut,) = compile_logs(replay.logs, max_tokens=4)
        check(replay, cut)
        with pytest.raises(InvariantBroken, match="tokens that are not the first"):
            check(replay, cut, flags=())


def test_other_images_are_found_out(tmp_path: Path) -> None:
    facts = {"kind": "sglang", "model_config": {"image_token_id": 9}}
    red, blue = picture("red"), picture("blue")
    log = write_log(
        tmp_path,
        answered(1, [1, 9, 9], [3], request={"messages": [shown(red)]}),
        answered(2, [1, 9, 9, 3, 9, 4], [5], request={"messages": [shown(red), shown(blue)]}),
        facts=facts,
    )
    (compiled,) = compile_logs(log)
    one, other = compiled.images
    with Replay([log]) as replay:
        check(replay, compiled)
        for images in ((), (one,), (other, one), (one, replace(one, token_span=(4, 1)))):
            with pytest.raises(InvariantBroken, match="images in its request, which are not the"):
                check(replay, compiled, images=images)
