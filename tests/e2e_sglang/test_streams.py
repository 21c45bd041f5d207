"""Live streams of a real server: what the client gets, and what is captured, against doing without."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from tests.e2e_sglang.server import sglang
from turnstile import TrainingSequence, compile_logs
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.mitmdump_process import running_proxy

CHATS, AT_ONCE = 200, 16


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with sglang("dense", "--reasoning-parser", "qwen3") as url:
        yield url


def request(number: int) -> dict[str, Any]:
    """Greedy, so that the server says the same again; every other one without thinking."""
    return {
        "messages": [{"role": "user", "content": f"Tell me about the number {number}."}],
        "max_tokens": 12 + number % 13,
        "temperature": 0,
        "stream": True,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": bool(number % 2)}},
    }


async def streamed(base_url: str) -> list[list[dict[str, Any]]]:
    """The chunks of every chat, as the client's own classes hold them."""
    limit = asyncio.Semaphore(AT_ONCE)
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        model = (await client.models.list()).data[0].id

        async def one(number: int) -> list[dict[str, Any]]:
            async with limit:
                stream = await client.chat.completions.create(model=model, **request(number))
                return [chunk.model_dump() async for chunk in stream]

        return list(await asyncio.gather(*map(one, range(CHATS))))


def said(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a chat's chunks say, one after the other, text that follows text joined.

    How many tokens the server puts into a chunk depends on how busy it is, and so does whether it sends a
    chunk that says nothing.
    """
    told: list[dict[str, Any]] = []
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = {name: value for name, value in choice["delta"].items() if value}
            event = {"finish": choice["finish_reason"], "matched": choice.get("matched_stop"), **delta}
            event = {name: value for name, value in event.items() if value is not None}
            if told and event and told[-1].keys() == event.keys() <= {"content", "reasoning_content"}:
                told[-1] = {name: told[-1][name] + value for name, value in event.items()}
            elif event:
                told.append(event)
        extra = set(chunk) - {"id", "choices", "created", "model", "object", "usage"}
        assert not any(chunk[name] for name in extra), f"not asked for: {extra}"
    return told


def compiled(log: Path) -> dict[bytes, TrainingSequence]:
    """The sequences by their prompts, which all differ."""
    compilation = compile_logs(log)
    assert compilation.findings == ()
    return {each.tokens[: each.segment_info[0][1]].tobytes(): each for each in compilation}


async def test_streams_are_those_of_the_server_and_captured_whole(backend: str, tmp_path: Path) -> None:
    direct = await streamed(f"{backend}/v1")
    for mode in ("live", "buffered"):
        with running_proxy(backend, tmp_path / mode, {"turnstile_streaming": mode}) as proxy:
            through = await streamed(f"http://{proxy.address}/group/g/v1")
            proxy.flush()
            counts = proxy.health()["capture"]
        assert list(map(said, through)) == list(map(said, direct))
        assert (counts["outcomes"], counts["incomplete"]) == ({"complete": CHATS}, 0)
    live, buffered = compiled(tmp_path / "live"), compiled(tmp_path / "buffered")
    assert len(live) == len(buffered) == CHATS
    for prompt, sequence in live.items():
        assert sequence.tokens.tolist() == buffered[prompt].tokens.tolist()
        assert sequence.segment_info == buffered[prompt].segment_info
        assert np.abs(sequence.logprobs - buffered[prompt].logprobs).max() < 0.05


def test_live_streams_have_arrival_times_and_weight_readings(tmp_path: Path, backend: str) -> None:
    with running_proxy(backend, tmp_path, {"turnstile_streaming": "live"}) as proxy:
        asyncio.run(streamed(f"http://{proxy.address}/v1"))
        proxy.flush()
    with open_log(*log_paths([tmp_path])) as log:
        exchanges = [exchange for _, exchange in log.exchanges()]
        readings = {reading.weight_version for reading in log.weight_readings()}
    assert all(len(exchange.arrivals) > 1 for exchange in exchanges)
    assert all(exchange.arrivals[-1].end == len(exchange.reply) for exchange in exchanges)
    assert len(readings) == 1
