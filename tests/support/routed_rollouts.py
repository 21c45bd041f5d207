"""Rollouts of a mixture of experts, whose replies repeat the routing of every token so far."""

import base64
import random
from array import array
from collections.abc import Iterable, Sequence

from tests.support.chat import choice, compact, completion
from tests.support.exchanges import exchange
from turnstile.addon.tracelog.records import Exchange


def routing_text(experts: Iterable[int]) -> str:
    """Numbers of experts, token by token and layer by layer, as SGLang writes them."""
    return base64.b64encode(array("i", experts).tobytes()).decode()


def routed_reply(ids: Sequence[int], *routing: Sequence[int]) -> bytes:
    """A reply of one choice for each routing."""
    made = [
        choice(at, prompt_ids=tuple(ids), meta_info={"routed_experts": routing_text(experts)})
        for at, experts in enumerate(routing)
    ]
    return compact(completion(*made))


def routed_turns(
    seed: int, turns: int, *, new_tokens: int = 60, a_token: int = 16, experts: int = 128, choices: int = 1
) -> list[Exchange]:
    """The turns of one rollout; `a_token` are the experts of one token over all layers.

    A further choice has other experts for the last third of the new tokens.
    """
    rng = random.Random(seed)
    messages, ids, routing, made = [], list[int](), list[int](), []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{seed}: question {turn}"})
        ids += rng.choices(range(300, 100_000), k=new_tokens)
        others = len(routing) + new_tokens * a_token * 2 // 3
        routing += rng.choices(range(experts), k=new_tokens * a_token)
        more = [
            routing[:others] + rng.choices(range(experts), k=len(routing) - others)
            for _ in range(choices - 1)
        ]
        made.append(
            exchange(
                seed * 1000 + turn,
                rollout_id=f"r-{seed}",
                request=compact({"messages": messages, "model": "tiny"}),
                reply=routed_reply(ids, routing[: len(routing) - a_token], *more),
            )
        )
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    return made
