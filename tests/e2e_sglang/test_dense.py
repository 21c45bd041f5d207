"""The whole way against a real server: OpenAI client, mitmdump with the addon, log, compiler, verify."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e_sglang.server import sglang
from turnstile import TrainingSequence, compile_logs
from turnstile.demo_agent import DRIFTING, STEADY, Ask, asked_streaming, asked_whole, run_rollout
from turnstile.mitmdump_process import running_proxy
from turnstile.running_proxy import RunningProxy

WAYS = pytest.mark.parametrize("ask", [asked_whole, asked_streaming])


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with sglang("dense") as url:
        yield url


@pytest.fixture
def proxy(backend: str, tmp_path: Path) -> Iterator[RunningProxy]:
    with running_proxy(backend, tmp_path / "log") as running:
        yield running


def client_of(proxy: RunningProxy, rollout: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{proxy.address}/group/g/rollout/{rollout}/v1", api_key="none")


def model_of(client: openai.OpenAI) -> str:
    return client.models.list().data[0].id


def verified(log: Path, output: Path) -> list[TrainingSequence]:
    """The sequences of the log, after `turnstile verify` found nothing wrong in log and output."""
    for arguments in (["compile", log, "-o", output, "--strict"], ["verify", log, output]):
        subprocess.run([Path(sys.executable).with_name("turnstile"), *arguments], check=True)
    return list(compile_logs([log]))


@WAYS
def test_tool_loop_whose_spelling_survives_is_one_sequence(
    proxy: RunningProxy, tmp_path: Path, ask: Ask
) -> None:
    with client_of(proxy, "steady") as client:
        assert run_rollout(client, model_of(client), STEADY, ask).startswith("Rome is warmer by ")
    proxy.flush()
    (sequence,) = verified(tmp_path / "log", tmp_path / "out.jsonl")
    assert [trained for trained, _ in sequence.segment_info] == [False, True] * 3
    assert sequence.finish_reasons == ("tool_calls", "tool_calls", "stop")


@WAYS
def test_tool_loop_whose_spelling_drifts_splits(proxy: RunningProxy, tmp_path: Path, ask: Ask) -> None:
    with client_of(proxy, "drifting") as client:
        run_rollout(client, model_of(client), DRIFTING, ask)
    proxy.flush()
    first, *others = verified(tmp_path / "log", tmp_path / "out.jsonl")
    assert first.parent is None
    assert others
    assert {other.parent.cause for other in others if other.parent} == {"retokenized"}
    assert sum(len(each.exchanges) for each in (first, *others)) == 3


def test_captured_logprobs_are_what_the_server_gives_the_merged_tokens(
    backend: str, proxy: RunningProxy, tmp_path: Path
) -> None:
    """Scored by the server on its own, every trained token gets the same logprob again."""
    messages: list[Any] = [{"role": "user", "content": "Tell me something."}]
    with client_of(proxy, "free") as client:
        for _ in range(2):
            request = {"model": model_of(client), "messages": messages, "max_tokens": 24, "temperature": 1.0}
            said = asked_whole(client, request).choices[0].message
            messages += [
                {"role": "assistant", "content": said.content},
                {"role": "user", "content": "Go on."},
            ]
    proxy.flush()
    for sequence in verified(tmp_path / "log", tmp_path / "out.jsonl"):
        scored = scores(backend, sequence.tokens.tolist())
        trained = sequence.loss_mask.nonzero()[0].tolist()
        differences = sorted(abs(scored[at] - sequence.logprobs[at]) for at in trained)
        assert trained
        assert differences[len(differences) // 2] < 0.02, "more than the numerics of a server in bfloat16"


def scores(backend: str, tokens: list[int]) -> list[float]:
    """The server's own log-probability of each token after those before it; 0.0 for the first."""
    body = {
        "input_ids": tokens,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    request = urllib.request.Request(
        f"{backend}/generate", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        rows = json.load(answer)["meta_info"]["input_token_logprobs"]
    return [0.0 if row[0] is None else float(row[0]) for row in rows]
