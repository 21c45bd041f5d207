"""A mixture of experts behind a prefix cache, as SGLang 0.5.23 answers for one: words are its tokens."""

import base64
import struct
from dataclasses import dataclass, field
from typing import Any

from tests.support.backend import Received, Reply
from tests.support.chat import choice, compact, completion

ANSWER = "four , for two and two more are counted to four by anybody who has so many fingers on a hand"
JSON = {"content-type": "application/json"}


@dataclass
class MoeServer:
    """A token is a word, a row of routing the number of its token, on one layer."""

    drops_answers: bool = False  # the template leaves out what was answered before
    respells_from: int | None = None  # word of an answer from which on it comes back as fewer tokens
    tokenizes: bool = False  # it has /tokenize
    weight_version: str = "step-1"
    num_retractions: int = 0
    cache: list[list[str]] = field(default_factory=list)
    vocabulary: dict[str, int] = field(default_factory=dict)

    def __call__(self, received: Received) -> Reply:
        """For a Backend's script."""
        if received.path == "/tokenize":
            return self.tokenized(received.json)
        status, body = self.answer(received.json)
        return Reply(body, status=status, headers=JSON)

    def answer(self, request: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body."""
        prompt = self.prompt(request["messages"])
        start = request.get("routed_experts_start_len", 0)
        if request.get("return_routed_experts") and start > len(prompt):
            return 400, refusal(start, len(prompt))
        choices = [self._choice(request, prompt, index, start) for index in range(request.get("n") or 1)]
        return 200, compact(completion(*choices))

    def tokenized(self, request: dict[str, Any]) -> Reply:
        """What /tokenize answers."""
        if not self.tokenizes:
            return Reply(b'{"detail":"Not Found"}', status=404)
        ids = self.ids(self.prompt(request["messages"]))
        return Reply(compact({"tokens": ids, "count": len(ids), "max_model_len": 4096}))

    def ids(self, words: list[str]) -> list[int]:
        return [self.vocabulary.setdefault(word, 100 + len(self.vocabulary)) for word in words]

    def prompt(self, messages: list[dict[str, Any]]) -> list[str]:
        said = [[message["role"], *self._spelled(message), "<end>"] for message in messages]
        return [word for words in said for word in words] + ["assistant"]

    def _spelled(self, message: dict[str, Any]) -> list[str]:
        words = str(message["content"]).split()
        if message["role"] != "assistant" or (self.respells_from is None and not self.drops_answers):
            return words
        same, other = words[: self.respells_from], words[self.respells_from :]
        return (
            [] if self.drops_answers else [*same, *map("".join, zip(other[::2], other[1::2], strict=False))]
        )

    def flush(self) -> None:
        self.cache.clear()

    def _choice(self, request: dict[str, Any], prompt: list[str], index: int, start: int) -> dict[str, Any]:
        sampled = [*ANSWER.split(), "<end>"][: request.get("max_completion_tokens")]
        cached = min(len(prompt) - 1, max((_shared(prompt, known) for known in self.cache), default=0))
        if request.get("n", 1) > 1:
            cached = len(prompt) - 1  # it is computed once for all, which no reply shows
        self.cache.append(prompt + sampled[:-1])
        meta_info: dict[str, Any] = {
            "cached_tokens": cached,
            "num_retractions": self.num_retractions,
            "weight_version": self.weight_version,
            "weight_versions": [{"version": self.weight_version, "start": 0, "end": len(sampled)}],
        }
        if request.get("return_routed_experts"):
            meta_info["routed_experts"] = rows(start, len(prompt) + len(sampled) - 1)
        return choice(
            index,
            prompt_ids=tuple(self.ids(prompt)),
            sampled=tuple((-0.5, *pair) for pair in zip(self.ids(sampled), sampled, strict=True)),
            message={"content": ANSWER},
            meta_info=meta_info,
        )


def refusal(start: int, prompt_tokens: int) -> bytes:
    """What 0.5.23 says of a start beyond the prompt."""
    message = (
        f"recv_req.routed_experts_start_len={start} is higher than the number of input tokens "
        f"len(req.origin_input_ids)={prompt_tokens}. Please use a smaller routed_experts_start_len."
    )
    error = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    return compact(error)


def rows(start: int, end: int) -> str:
    """The routing of the tokens from `start` on."""
    return base64.b64encode(struct.pack(f"<{end - start}i", *range(start, end))).decode()


def row_numbers(routing: str) -> list[int]:
    """Of which tokens the rows are."""
    raw = base64.b64decode(routing)
    return list(struct.unpack(f"<{len(raw) // 4}i", raw))


def _shared(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
