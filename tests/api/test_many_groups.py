"""Many groups at once through the OpenAI client: nothing is lost, nothing gets into another group."""

import asyncio
import json
from typing import Any

import openai

import turnstile
from tests.support.backend import EVENT_STREAM, Received, Reply, running_backend
from tests.support.chat import choice, completion
from tests.support.logs import stream_events

GROUPS, ROLLOUTS, TURNS = 16, 4, 2


def sampled_id(group: int, rollout: int, turn: int) -> int:
    """A token of its own for each answer."""
    return 1000 + group * 100 + rollout * 10 + turn


def prompt_ids(group: int, rollout: int, turn: int) -> list[int]:
    """The conversation so far: a question, then each answer and the next question."""
    ids = [1, group, rollout]
    for answered in range(turn):
        ids += [sampled_id(group, rollout, answered), 2]
    return ids


def answer(received: Received) -> Reply:
    if received.path != "/v1/chat/completions":
        return Reply(b"{}", status=404)
    messages = received.json["messages"]
    group, rollout = map(int, messages[0]["content"].split("/"))
    turn = sum(message["role"] == "assistant" for message in messages)
    prompt, sampled = prompt_ids(group, rollout, turn), sampled_id(group, rollout, turn)
    if received.json.get("stream"):
        return Reply(stream_events(prompt, [sampled]), headers=EVENT_STREAM)
    said = choice(prompt_ids=tuple(prompt), sampled=((-0.125, sampled, "x"),))
    return Reply(json.dumps(completion(said)).encode())


async def play(proxy: turnstile.AsyncProxy, group_id: str, group: int, rollout: int) -> None:
    """One rollout, every other one streaming; its reward tells which it was."""
    messages: list[Any] = [{"role": "user", "content": f"{group}/{rollout}"}]
    base_url = proxy.base_url(group_id, f"r{rollout}")
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for _ in range(TURNS):
            if rollout % 2:
                async with client.chat.completions.stream(model="m", messages=messages) as stream:
                    said = (await stream.get_final_completion()).choices[0].message.content
            else:
                whole = await client.chat.completions.create(model="m", messages=messages)
                said = whole.choices[0].message.content
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "And?"}]
    await proxy.add_reward(group_id, group + rollout / 10, rollout_id=f"r{rollout}")


async def test_every_rollout_is_one_sequence_in_its_own_group_with_its_own_reward() -> None:
    with running_backend() as backend:
        backend.script = answer
        options = {"turnstile_streaming": "live"}
        async with turnstile.AsyncProxy(backend.url, options=options) as proxy:
            group_ids = [await proxy.create_group(metadata={"number": number}) for number in range(GROUPS)]
            await asyncio.gather(
                *(
                    play(proxy, group_id, group, rollout)
                    for group, group_id in enumerate(group_ids)
                    for rollout in range(ROLLOUTS)
                )
            )
            found = {group_id: await proxy.compile_group(group_id) for group_id in group_ids}
            counters = [await proxy.get_group(group_id) for group_id in group_ids]
    for group, (group_id, compilation) in enumerate(found.items()):
        assert compilation.findings == ()
        sequences = sorted(compilation, key=lambda sequence: str(sequence.rollout_id))
        assert [each.rollout_id for each in sequences] == [f"r{rollout}" for rollout in range(ROLLOUTS)]
        for rollout, sequence in enumerate(sequences):
            last = sampled_id(group, rollout, TURNS - 1)
            assert sequence.tokens.tolist() == [*prompt_ids(group, rollout, TURNS - 1), last]
            assert sequence.segment_info == ((False, 3), (True, 1), (False, 1), (True, 1))
            assert (sequence.group_id, sequence.reward) == (group_id, group + rollout / 10)
            assert sequence.metadata["group"] == {"number": group}
    for fields in counters:
        assert (fields["captured"], fields["rollouts"], fields["rewards"]) == (
            ROLLOUTS * TURNS,
            ROLLOUTS,
            ROLLOUTS,
        )
