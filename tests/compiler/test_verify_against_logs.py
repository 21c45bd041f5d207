import base64
import json
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"finish_reasons": ("stop", "length")}, "000002 finished with 'stop', not 'length'"),
        ({"sampling": ({"temperature": 9.0}, {})}, "000001 was sampled with other parameters: temperature"),
        ({"rollout_id": "r"}, "000001 is of another rollout"),
        (
            {"weight_versions": ((0, "forged"),)},
            "000001 was sampled by other weights than those from token 2",
        ),
        (
            {"weight_versions": ((0, "step-1"), (5, "2"))},
            "000002 was sampled by other weights than those from",
        ),
        ({"weight_versions": ()}, "000001 was sampled by other weights"),
        ({"routed_experts": np.ones((5, 1, 2), np.uint8)}, "no answer told the experts in row 0"),
    ],
)
def test_what_no_answer_told_is_found_out(
    replay: Replay, sequence: TrainingSequence, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvariantBroken, match=message):
        check(replay, sequence, **changed)


def test_a_call_of_which_a_cut_sequence_holds_nothing_is_found_out(
    replay: Replay, sequence: TrainingSequence
) -> None:
    cut = {
        "tokens": sequence.tokens[:3],
        "logprobs": sequence.logprobs[:3],
        "segment_info": ((False, 2), (True, 1)),
        "flags": ("truncated",),
    }
    with pytest.raises(InvariantBroken, match="000002 sampled from token 4 on, the sequence has 3 tokens"):
        check(replay, sequence, **cut)


def told_from(start: int, *rows: int) -> dict[str, Any]:
    """A request, and the choice of an answer that tells rows from `start` on, by their first experts."""
    experts = np.array([[row, row + 1] for row in rows], "<i4")
    told = {"routed_experts": base64.b64encode(experts.tobytes()).decode(), "cached_tokens": start}
    asked = {"messages": [], "return_routed_experts": True, "routed_experts_start_len": start}
    return {"request": asked, "choice_fields": {"meta_info": told}}


def test_rows_that_were_taken_over_are_held_against_the_parents_answers(tmp_path: Path) -> None:
    turns = (
        answered(1, [1, 2], [3, 4], **told_from(0, 10, 20, 30)),
        answered(2, [1, 2, 9], [5], **told_from(2, 40)),
        answered(3, [8, 8], [8], **told_from(0, 77, 77)),
    )
    with Replay([write_log(tmp_path, *turns, facts=BACKEND)]) as replay:
        parent, child, _ = compiled = list(compile_logs(replay.logs))
        assert child.routed_experts is not None and parent.routed_experts is not None
        assert child.routed_experts[:, 0, 0].tolist() == [10, 20, 40]
        verify_against_logs(compiled, Path("out.jsonl"), replay)
        for row, expert in ((1, 30), (0, 77)):  # told, but behind other tokens
            wrong = child.routed_experts.copy()
            wrong[row, 0] = expert, expert + 1
            with pytest.raises(InvariantBroken, match=f"no answer told the experts in row {row}"):
                check(replay, child, routed_experts=wrong)


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


def test_a_cut_sequence_with_routing_and_weights_is_borne_out(tmp_path: Path) -> None:
    spans = [{"version": "1", "start": 0, "end": 2}, {"version": "2", "start": 2, "end": 3}]
    turns = (
        answered(1, [1, 2], [3, 4, 5], choice_fields={"meta_info": routed(4) | {"weight_versions": spans}}),
        answered(2, [1, 2, 3, 4, 5, 6], [7], choice_fields={"meta_info": routed(6)}),
    )
    with Replay([write_log(tmp_path, *turns, facts=BACKEND)]) as replay:
        for max_tokens in (3, 4, 5, 6, 7):
            (cut,) = compile_logs(replay.logs, max_tokens=max_tokens)
            assert cut.routed_experts is not None
            check(replay, cut)


def test_rows_that_the_log_alone_cannot_place_are_not_called_untold(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    experts = np.arange(12, dtype="<i4").tobytes()  # 3 rows of 4 ids, or 4 rows of 3
    told = {"routed_experts": base64.b64encode(experts).decode()}
    log = write_log(tmp_path / "log", answered(1, [1, 2], [3, 4], choice_fields={"meta_info": told}))
    (sequence,) = compile_logs(log, model=tmp_path)
    assert sequence.routed_experts_shape == (3, 2, 2)
    with Replay([log]) as replay:
        check(replay, sequence)
