import asyncio
from typing import Any

import openai
import pytest

import turnstile
from tests.support.backend import running_backend

MESSAGES: Any = [{"role": "user", "content": "2+2?"}]


async def ask(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        await client.chat.completions.create(model="m", messages=MESSAGES)


async def test_all_that_takes_time_is_awaited() -> None:
    with running_backend() as backend:
        async with turnstile.AsyncProxy(backend_url=backend.url) as proxy:
            group_id = await proxy.create_group(metadata={"task": "sum"})
            await asyncio.gather(*(ask(proxy.base_url(group_id, f"r{number}")) for number in range(4)))
            await proxy.add_reward(group_id, 1.0, rollout_id="r2")
            await proxy.flush()
            sequences = await proxy.get_training_sequences(group_id)
            assert {each.rollout_id: each.reward for each in sequences} == {
                "r0": None,
                "r1": None,
                "r2": 1.0,
                "r3": None,
            }
            assert (await proxy.compile_group(group_id)).findings == ()
            assert (await proxy.get_group(group_id))["rollouts"] == 4
            assert (await proxy.health())["status"] == "ok"
            assert proxy.addr in proxy.base_url("g")


async def test_before_its_context_is_entered_it_says_what_to_do() -> None:
    proxy = turnstile.AsyncProxy("http://127.0.0.1:9")
    with pytest.raises(turnstile.ProxyError, match="use it inside `async with`"):
        await proxy.flush()
    await proxy.close()
