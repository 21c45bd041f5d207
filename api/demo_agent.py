"""The demo's harness: a small agent with a tool, on the real OpenAI client.

It asks for the temperatures of two cities and says which is warmer. The model of the sample trace is tiny
and random, so each request says by a grammar (`regex`) what may be written. The hours and the difference
are the model's own; of the rest it chooses only the spelling in tokens. `STEADY` biases it towards the
tokenizer's own tokens, `DRIFTING` does not: what it samples is not what the server makes of the same text
when it comes back.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import openai
from openai.types.chat import ChatCompletion

TEMPERATURES_C = {"Oslo": 4, "Rome": 17}
TOOL = {
    "type": "function",
    "function": {
        "name": "temperature",
        "description": "The temperature in a city at an hour of today, in degrees Celsius",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "hour": {"type": "string"}},
            "required": ["city", "hour"],
        },
    },
}
# As regular expressions: %s is the city.
_ARGUMENTS = r'\{"city": "%s", "hour": "[0-9]{2}"\}'
CALL = '<tool_call>\n\\{"name": "temperature", "arguments": ' + _ARGUMENTS + "\\}\n</tool_call>"
ANSWER = "Rome is warmer by [0-9]{2} degrees\\."
QUESTION = (
    {"role": "system", "content": "You look temperatures up with the tool before you answer."},
    {"role": "user", "content": "Which is warmer today, Oslo or Rome?"},
)

_END = {"151645": 40}  # <|im_end|>, which ends a message in this chat format


@dataclass(frozen=True, slots=True)
class Spelling:
    """A way of sampling the same text."""

    rollout_id: str
    logit_bias: dict[str, int]


# The Qwen tokenizer's own pieces of these texts; the longer the stronger: " degrees" must win over " deg".
_PIECES = {
    "151657": 100,  # <tool_call>
    "198": 12,  # newline
    "4913": 24,  # {"
    "606": 48,  # name
    "788": 24,  # ":
    "330": 24,  # space "
    "34558": 100,  # temperature
    "497": 24,  # ",
    "16370": 100,  # arguments
    "5212": 36,  # space {"
    "8926": 48,  # city
    "28867": 24,  # Os
    "385": 24,  # lo
    "49": 12,  # R
    "635": 36,  # ome
    "24677": 48,  # hour
    "95642": 48,  # "}} newline
    "151658": 100,  # </tool_call>
    "374": 36,  # space is
    "44939": 84,  # space warmer
    "553": 36,  # space by
    "220": 12,  # space
    "12348": 96,  # space degrees
    "13": 12,  # .
}
STEADY = Spelling("steady", _END | _PIECES)
DRIFTING = Spelling("drifting", _END)
SPELLINGS = (STEADY, DRIFTING)


Ask = Callable[[openai.OpenAI, Mapping[str, Any]], ChatCompletion]


def run_rollout(client: openai.OpenAI, model: str, spelling: Spelling, ask: Ask) -> str:
    """Plays one rollout and returns the model's last words."""
    messages: list[Any] = list(QUESTION)
    for wanted in [CALL % city for city in TEMPERATURES_C] + [ANSWER]:
        message = ask(client, _request(model, messages, wanted, spelling)).choices[0].message
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls or []:
            assert call.type == "function", "the only tool is a function"
            city = json.loads(call.function.arguments)["city"]
            content = json.dumps({"celsius": TEMPERATURES_C[city]})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return str(messages[-1]["content"])


def asked_whole(client: openai.OpenAI, request: Mapping[str, Any]) -> ChatCompletion:
    """The completion, in one piece."""
    completion: ChatCompletion = client.chat.completions.create(**request)
    return completion


def asked_streaming(client: openai.OpenAI, request: Mapping[str, Any]) -> ChatCompletion:
    """The completion, put together from a stream by the client's own helper."""
    with client.chat.completions.stream(**request) as stream:
        return stream.get_final_completion()


def _request(model: str, messages: list[Any], wanted: str, spelling: Spelling) -> dict[str, Any]:
    return {
        "model": model,
        "messages": messages,
        "tools": [TOOL],
        "max_tokens": 96,
        "temperature": 1.0,
        "logit_bias": spelling.logit_bias,
        "extra_body": {"regex": wanted},
    }
