"""Turns of a conversation with a MoeServer through a proxy, asked by the OpenAI client."""

from functools import cache
from typing import Any

import openai

from tests.support.backend import Backend
from tests.support.mitmdump import Proxy
from tests.support.moe_server import ANSWER

QUESTION: Any = {"role": "user", "content": "what is two and two , and how do you know it ?"}
ANSWERED: Any = {"role": "assistant", "content": ANSWER}
MORE: Any = {"role": "user", "content": "and why is it not five ?"}


def ask(proxy: Proxy, messages: list[Any], **fields: Any) -> Any:
    """One turn of the group's one rollout."""
    client = _client(f"{proxy.url}/group/g/rollout/r/v1")
    return client.chat.completions.create(model="m", messages=messages, extra_body=fields)


def turns(proxy: Proxy, count: int, **fields: Any) -> list[Any]:
    """Asks so many times; gives what a further turn would send."""
    messages = [QUESTION]
    for _ in range(count):
        said = ask(proxy, messages, **fields).choices[0].message.content
        messages += [{"role": "assistant", "content": said}, MORE]
    return messages


def starts(backend: Backend) -> list[int]:
    """From which row on each request asked for routed experts."""
    asked = (received.json for received in backend.received if received.path != "/tokenize")
    return [each.get("routed_experts_start_len", 0) for each in asked]


@cache
def _client(base_url: str) -> openai.OpenAI:
    """Making one reads the system's certificates, which takes longer than a turn."""
    return openai.OpenAI(base_url=base_url, api_key="key", max_retries=0)
