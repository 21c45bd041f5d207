"""Made-up conversations of known size: what harnesses send, and what the backend answers to it.

A session is one rollout: each turn resends the whole history, adds a user message and samples an answer.
All is drawn from seeds: a session is the same in every process that asks for it.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from routing import Experts, Routing
from sglang_reply import END_ID, END_TEXT, Sampled, chat_completion, dumped, with_routing
from vocabulary import vocabulary

# ChatML in the ids of Qwen's tokenizer
_START, _NEWLINE, _USER, _ASSISTANT = 151644, 198, 872, 77091
_OPENING = (_START, _USER, _NEWLINE)
_CLOSING = (END_ID, _NEWLINE, _START, _ASSISTANT, _NEWLINE)
_MARKUP = len(_OPENING) + len(_CLOSING)


@dataclass(frozen=True, slots=True)
class Workload:
    """Sessions of one shape; sizes are token ids."""

    name: str
    sessions: int
    turns: int  # of each session
    first_ids: int  # of a session's first prompt
    more_ids: int  # that each further turn adds to the prompt, beside the answer before it
    sampled_ids: int  # of each turn
    attempts: int = 1  # sessions that begin with the same prompt
    experts: Experts | None = None  # of a mixture of experts

    @property
    def unique_ids(self) -> int:
        """Ids of all sessions at their ends, every one counted once; for sessions that share nothing."""
        a_session = self.first_ids + (self.turns - 1) * self.more_ids + self.turns * self.sampled_ids
        return self.sessions * a_session

    @property
    def prompt_ids(self) -> int:
        """Ids of the prompts of all turns."""
        a_turn = self.more_ids + self.sampled_ids
        return self.sessions * (self.turns * self.first_ids + a_turn * self.turns * (self.turns - 1) // 2)


SMALL = Workload("small", 1, 1, 1_000, 0, 50)
LARGE = Workload("large", 1, 1, 16_000, 0, 1_000)
GROWING = Workload("growing", 32, 50, 200, 200, 50)
MANY = Workload("many", 1_000, 10, 200, 200, 50)
ROUTED = Workload("routed", 24, 20, 200, 200, 50, experts=Experts(layers=48, top_k=8, experts=128))
WORKLOADS = {workload.name: workload for workload in (SMALL, LARGE, GROWING, MANY, ROUTED)}


@dataclass(frozen=True, slots=True)
class Call:
    """One turn of a session as bytes on the wire."""

    key: str  # workload:session:turn; the request names it in its `user` field
    session: int
    request: bytes  # as a harness sends it that asks for nothing special
    reply: bytes  # to the request with Turnstile's fields added, but for routed experts
    answer: bytes  # the assistant's text, as it stands in the reply
    routing: Routing | None = None

    def whole_reply(self, start_row: int = 0) -> bytes:
        """The reply with routed experts, where the model has them, from a row on."""
        return with_routing(self.reply, self.routing.text(start_row)) if self.routing else self.reply


def calls(workload: Workload, session: int) -> Iterator[Call]:
    """The turns of one session, made one at a time."""
    rng = random.Random(f"{workload.name}/{session}")
    of_task = random.Random(f"{workload.name}/task {session // workload.attempts}")
    words = vocabulary()
    history, computed = _History(), 0
    for turn in range(workload.turns):
        if turn:
            history.ask(
                words.draw(rng, workload.more_ids - _MARKUP - 1)
            )  # one more: the line break before it
        else:
            history.ask(words.draw(of_task, workload.first_ids - _MARKUP))
        numbers = words.draw(rng, workload.sampled_ids - 1)
        sampled = _sampled(numbers, rng)
        key = f"{workload.name}:{session}:{turn}"
        routing, cached_tokens = None, 0
        if workload.experts:
            cached_tokens = computed  # a turn's last token is sampled and not computed
            computed = history.count + workload.sampled_ids - 1
            routing = Routing(workload.experts, f"{workload.name}/{session}", computed)
        reply = chat_completion(bytes(history.ids), history.count, sampled, cached_tokens)
        yield Call(key, session, history.request(key), reply, words.text(numbers).encode(), routing)
        history.answer(numbers)


def interleaved(workload: Workload) -> Iterator[Call]:
    """The turns of all sessions as a server sees them: side by side, no two rounds in one order.

    Holds one history a session, some ten kilobytes each.
    """
    order = random.Random(workload.name)
    sessions = [calls(workload, session) for session in range(workload.sessions)]
    for _ in range(workload.turns):
        order.shuffle(sessions)
        for session in sessions:
            yield next(session)


def _sampled(numbers: list[int], rng: random.Random) -> Sampled:
    words = vocabulary()
    return Sampled(
        ids=[*words.ids_of(numbers), END_ID],
        texts=[*(f" {words.words[number]}" for number in numbers), END_TEXT],
        logprobs=[_float32(-rng.expovariate(2.0)) for _ in range(len(numbers) + 1)],
    )


def _float32(value: float) -> float:
    """The number that JSON shows of a value computed in single precision."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


@dataclass(slots=True)
class _History:
    """A conversation up to the next answer, both as JSON text of messages and as text of its ids."""

    messages: bytearray = field(default_factory=bytearray)
    ids: bytearray = field(default_factory=bytearray)
    count: int = 0

    def ask(self, numbers: list[int]) -> None:
        self._say("user", numbers)
        self._add_ids(
            [*((_NEWLINE,) if self.count else ()), *_OPENING, *vocabulary().ids_of(numbers), *_CLOSING]
        )

    def answer(self, numbers: list[int]) -> None:
        self._say("assistant", numbers)
        self._add_ids([*vocabulary().ids_of(numbers), END_ID])

    def request(self, key: str) -> bytes:
        tail = f'],"temperature":1.0,"max_tokens":1024,"user":"{key}"}}'
        return b'{"model":"mock","messages":[' + self.messages + tail.encode()

    def _say(self, role: str, numbers: list[int]) -> None:
        comma = b"," if self.messages else b""
        self.messages += comma + dumped({"role": role, "content": vocabulary().text(numbers)})

    def _add_ids(self, ids: list[int]) -> None:
        comma = b"," if self.count else b""
        self.ids += comma + ",".join(map(str, ids)).encode()
        self.count += len(ids)
