"""Small logs of conversations, in the tokens of the small tokenizer of tests/support/tokenizer.py."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.logs import answered
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.tokenizer import Tokenizer

SYSTEM = {"role": "system", "content": "Be brief."}
COUNT = {"role": "user", "content": "Count."}
MORE = {"role": "user", "content": "More."}
FACTS: Mapping[str, Any] = {"kind": "sglang", "model_config": {"vocab_size": 2000}}


def answer(content: str, **fields: Any) -> dict[str, Any]:
    """An assistant message."""
    return {"role": "assistant", "content": content, **fields}


def call(arguments: str, id_: str = "call_1") -> dict[str, Any]:
    """An assistant message that calls the tool f."""
    function = {"name": "f", "arguments": arguments}
    return answer("", tool_calls=[{"id": id_, "type": "function", "function": function}])


class Talk:
    """Makes exchanges of texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def ids(self, *pieces: str) -> list[int]:
        """The ids of the pieces, each encoded by itself."""
        return [token_id for piece in pieces for token_id in self._tokenizer.ids_of(piece)]

    def turn(
        self,
        number: int,
        prompt: Sequence[str],
        sampled: Sequence[str],
        messages: Sequence[Any],
        reply: Mapping[str, Any],
        **fields: Any,
    ) -> Exchange:
        """An exchange whose prompt and answer are spelled in these pieces."""
        request = {"model": "tiny", "messages": list(messages), **fields.pop("request", {})}
        prompt_ids, sampled_ids = self.ids(*prompt), self.ids(*sampled)
        choice = {"message": dict(reply), **self._told(sampled_ids), **fields.pop("choice", {})}
        return answered(number, prompt_ids, sampled_ids, request=request, choice_fields=choice, **fields)

    def _told(self, sampled_ids: Sequence[int]) -> dict[str, Any]:
        """What a backend tells of the ids' texts, which it decodes one by one."""
        texts = [(self._tokenizer.bytes_of(each) or b"").decode(errors="replace") for each in sampled_ids]
        rows = [(-(at + 1) / 8, list(text.encode())) for at, text in enumerate(texts)]
        return {"logprobs": {"content": [{"logprob": logprob, "bytes": text} for logprob, text in rows]}}
