"""Live streams of a real server: what the client gets, and what is captured, against doing without."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from tests.e2e_sglang.server import sglang
from tests.e2e_sglang.stream_events import Event, comparable, for_harness, said
from tests.e2e_sglang.streamed_chats import question, request
from turnstile import TrainingSequence, compile_logs
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Exchange
from turnstile.mitmdump_process import running_proxy

CHATS, AT_ONCE = 200, 16
ASKED_AGAIN = 5
"""Times that a chat is, alone, as long as the server has cut its text otherwise into chunks."""

Chat = list[Event]


@dataclass(frozen=True, slots=True)
class Run:
    """All chats through one proxy."""

    chats: list[Chat]
    capture: dict[str, Any]  # of the proxy's health
    log: Path


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    with sglang("dense", "--reasoning-parser", "qwen3") as url:
        yield url


@pytest.fixture(scope="module")
def direct(backend: str) -> list[Chat]:
    return streamed(f"{backend}/v1", range(CHATS), AT_ONCE)


@pytest.fixture(scope="module")
def live(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return through(backend, "live", tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def buffered(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return through(backend, "buffered", tmp_path_factory.mktemp("buffered"))


def through(backend: str, mode: str, log: Path) -> Run:
    with running_proxy(backend, log, {"turnstile_streaming": mode}) as proxy:
        chats = streamed(f"http://{proxy.address}/group/g/v1", range(CHATS), AT_ONCE)
        proxy.flush()
        return Run(chats, proxy.health()["capture"], log)


def streamed(base_url: str, numbers: Iterable[int], at_once: int) -> list[Chat]:
    """The events of these chats as the client parsed them, every field that came and no other."""

    async def all_of_them() -> list[Chat]:
        limit = asyncio.Semaphore(at_once)
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            model = (await client.models.list()).data[0].id

            async def one(number: int) -> Chat:
                async with limit:
                    stream = await client.chat.completions.create(model=model, **request(number))
                    return [chunk.to_dict() async for chunk in stream]

            return list(await asyncio.gather(*map(one, numbers)))

    return asyncio.run(all_of_them())


def exchanges(log: Path) -> list[Exchange]:
    with open_log(*log_paths([log])) as opened:
        return [exchange for _, exchange in opened.exchanges()]


def compiled(log: Path) -> dict[bytes, TrainingSequence]:
    """The sequences by their prompts, which all differ."""
    compilation = compile_logs(log)
    assert compilation.findings == ()
    return {each.tokens[: each.segment_info[0][1]].tobytes(): each for each in compilation}


def test_each_client_gets_what_the_server_sent_it_but_for_what_was_added(live: Run) -> None:
    sent = {json.loads(each.request)["messages"][0]["content"]: each for each in exchanges(live.log)}
    assert len(sent) == CHATS
    for number, chat in enumerate(live.chats):
        assert chat == for_harness(sent[question(number)].reply_content())


def test_each_client_gets_the_very_events_of_the_server_alone(
    backend: str, direct: list[Chat], live: Run, tmp_path: Path
) -> None:
    alone, proxied = ([[comparable(chat)] for chat in chats] for chats in (direct, live.chats))
    with running_proxy(backend, tmp_path, {"turnstile_streaming": "live"}) as proxy:
        for _ in range(ASKED_AGAIN):
            numbers = differing(alone, proxied)
            for seen, url in ((alone, backend), (proxied, f"http://{proxy.address}")):
                for at, chat in zip(numbers, streamed(f"{url}/v1", numbers, at_once=1), strict=True):
                    seen[at].append(comparable(chat))
    assert differing(alone, proxied) == []


def differing(alone: list[list[Chat]], proxied: list[list[Chat]]) -> list[int]:
    """The chats which have not come through the proxy as they once came without."""
    pairs = enumerate(zip(alone, proxied, strict=True))
    return [number for number, (plain, ours) in pairs if not any(chat in plain for chat in ours)]


def test_a_live_stream_says_what_the_server_says_alone(direct: list[Chat], live: Run) -> None:
    assert list(map(said, live.chats)) == list(map(said, direct))


def test_a_buffered_stream_says_what_the_server_says_alone(direct: list[Chat], buffered: Run) -> None:
    # The whole reply that it is made of does not hold the end token of a tool call.
    alone = list(map(said, direct))
    for chat in alone:
        if chat[-1]["finish"] == "tool_calls":
            del chat[-1]["matched"]
    assert list(map(said, buffered.chats)) == alone


def test_all_are_captured_whole_and_as_buffered_ones_are(live: Run, buffered: Run) -> None:
    for run in (live, buffered):
        assert (run.capture["outcomes"], run.capture["incomplete"]) == ({"complete": CHATS}, 0)
    of_live, of_buffered = compiled(live.log), compiled(buffered.log)
    assert len(of_live) == len(of_buffered) == CHATS
    for prompt, sequence in of_live.items():
        assert sequence.tokens.tolist() == of_buffered[prompt].tokens.tolist()
        assert sequence.segment_info == of_buffered[prompt].segment_info
        assert np.abs(sequence.logprobs - of_buffered[prompt].logprobs).max() < 0.05


def test_live_streams_have_arrival_times_and_weight_readings(live: Run) -> None:
    with open_log(*log_paths([live.log])) as log:
        readings = {reading.weight_version for reading in log.weight_readings()}
    assert all(len(exchange.arrivals) > 1 for exchange in exchanges(live.log))
    assert all(exchange.arrivals[-1].end == len(exchange.reply) for exchange in exchanges(live.log))
    assert len(readings) == 1
