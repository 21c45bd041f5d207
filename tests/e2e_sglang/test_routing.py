"""Routed experts of a real server: joined over turns, the same in every mode, split where they changed."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from tests.e2e_sglang.server import sglang
from tests.e2e_sglang.test_dense import model_of, verified
from turnstile import TrainingSequence, compile_logs
from turnstile.mitmdump_process import running_proxy

ROLLOUTS, TURNS = 30, 4
DIGITS = {"regex": "[0-9]{8}", "logit_bias": {"151645": 20}}  # each digit is a token: survives being resent
FREE = {"max_tokens": 24}  # free text is seldom spelled again as it was sampled


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with sglang("moe") as url:
        yield url


def post(backend: str, path: str, body: dict[str, Any] | None = None) -> None:
    request = urllib.request.Request(
        f"{backend}{path}", json.dumps(body or {}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def ask(client: openai.OpenAI, messages: list[Any], **fields: Any) -> None:
    """One turn, sampled greedily; its answer and the next question are put behind the messages."""
    model = model_of(client)
    answer = client.chat.completions.create(
        model=model, messages=messages, temperature=0.0, extra_body=fields
    )
    messages += [
        {"role": "assistant", "content": answer.choices[0].message.content},
        {"role": "user", "content": f"Go on, {len(messages)}."},
    ]


def rollout(proxy: str, number: int) -> None:
    messages = [{"role": "user", "content": f"Count from {number}."}]
    base_url = f"http://{proxy}/group/g/rollout/{number}/v1"
    with openai.OpenAI(base_url=base_url, api_key="none") as client:
        for _ in range(TURNS):
            ask(client, messages, **(FREE if number % 5 == 4 else DIGITS))


def captured(backend: str, log: Path, mode: str) -> list[TrainingSequence]:
    post(backend, "/flush_cache")
    with running_proxy(backend, log, {"turnstile_moe": mode}) as proxy:
        for number in range(ROLLOUTS):  # one after the other: what is sampled depends on who shares a batch
            rollout(proxy.address, number)
        proxy.flush()
    return sorted(verified(log, log.with_suffix(".jsonl")), key=by_rollout_and_tokens)


def by_rollout_and_tokens(sequence: TrainingSequence) -> tuple[str, list[int]]:
    return str(sequence.rollout_id), sequence.tokens.tolist()


def told(sequence: TrainingSequence) -> tuple[Any, ...]:
    cause = sequence.parent.cause if sequence.parent else None
    return sequence.rollout_id, sequence.tokens.tolist(), sequence.segment_info, sequence.flags, cause


def test_every_row_is_known_and_no_mode_tells_another(backend: str, tmp_path: Path) -> None:
    full, delta = (captured(backend, tmp_path / mode, mode) for mode in ("full", "delta"))
    assert sum(len(each.exchanges) for each in full) == ROLLOUTS * TURNS
    assert {rows_of(each).shape[1:] for each in full} == {(3, 2)}
    assert [len(rows_of(each)) - len(each.tokens) for each in full] == [-1] * len(full)
    assert [told(each) for each in delta] == [told(each) for each in full]
    for one, other in zip(delta, full, strict=True):
        assert np.array_equal(np.sort(rows_of(one), axis=2), np.sort(rows_of(other), axis=2))


def rows_of(sequence: TrainingSequence) -> Any:
    assert sequence.routed_experts is not None
    return sequence.routed_experts


@pytest.mark.parametrize("mode", ["full", "delta"])
def test_a_prefix_that_is_computed_again_splits_only_where_the_weights_changed(
    backend: str, tmp_path: Path, mode: str
) -> None:
    weights = Path(model_path(backend))
    other = weights.with_name(f"{weights.name}-b")
    with running_proxy(backend, tmp_path / "log", {"turnstile_moe": mode}) as proxy:
        messages: list[Any] = [{"role": "user", "content": "Count."}]
        with openai.OpenAI(base_url=f"http://{proxy.address}/group/g/rollout/r/v1", api_key="none") as client:
            ask(client, messages, **DIGITS)
            post(backend, "/flush_cache")
            ask(client, messages, **DIGITS)
            try:
                post(
                    backend,
                    "/update_weights_from_disk",
                    {"model_path": str(other), "weight_version": "step-2"},
                )
                ask(client, messages, **DIGITS)
                ask(client, messages, **DIGITS)
            finally:
                restore = {"model_path": str(weights), "weight_version": "step-1"}
                post(backend, "/update_weights_from_disk", restore)
        proxy.flush()
    first, second = verified(tmp_path / "log", tmp_path / "out.jsonl")
    assert (len(first.exchanges), len(second.exchanges)) == (2, 2)
    assert second.parent is not None
    assert (second.parent.cause, second.parent.shared_tokens) == ("routing_changed", len(first.tokens))
    assert [version for _, version in (*first.weight_versions, *second.weight_versions)] == [
        "step-1",
        "step-2",
    ]
    changed = [each for each in compile_logs(tmp_path / "log").findings if each.kind == "routing_changed"]
    assert len(changed) == 1


def model_path(backend: str) -> str:
    with urllib.request.urlopen(f"{backend}/model_info") as answer:
        return str(json.load(answer)["model_path"])
