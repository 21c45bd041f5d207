"""How much of a request's routing earlier exchanges have told, so that a backend is asked only for the rest.

A harness resends the conversation. Where it begins with the messages and the answer of an exchange that was
captured whole, its prompt begins with tokens of that exchange, whose rows are known. With how many:

- All its tokens, once a reply has shown that answers come back as the tokens that were sampled, and until one
  shows that they do not: templates drop thinking, and free text is spelled otherwise.
- Before and after that the ids tell: the backend gives those of the new prompt before it is sent, and those
  of exchanges are remembered.
- Where it does not give them, what the backend had cached of the exchange counts, for it should have that
  again: that asks for the rows of about two turns.

The ids that a reply brings show whether too little was asked for. Then all rows are asked for once more, see
`all_rows`. Such an exchange is not remembered, and neither is believed again what it rested on.

The rows of a prompt that the backend computes anew are not the known ones. A reply with fewer cached tokens
than rows that were left out does not tell those between; what was remembered is then cut to what was cached.

What is remembered is digests, numbers and ids, of the latest exchanges; new weights end all of it, and
another backend what was believed, too.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnstile.addon.backends.errors import AskingError, UndecodableReply
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.json_edit import JsonObject, parse_object
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.addon.backends.wording import Conversation, Wording, reply_digest
from turnstile.addon.capture.routes import Route
from turnstile.addon.capture.token_texts import (
    TEXT_BYTES,
    TokenTexts,
    prompt_text_of,
    shared_ids,
    whole_text_of,
)

OVERLAP_ROWS = 8  # that are asked for again, so that a compiler can see whether they are the same
EXCHANGES = 1 << 15  # that are remembered, some 300 bytes each

SHAPING_FIELDS = (
    "model",
    "lora_path",
    "tools",
    "tool_choice",
    "reasoning_effort",
    "chat_template",
    "chat_template_kwargs",
    "input_ids",
)
"""Beside the messages, what the prompt's tokens and their experts depend on."""


@dataclass(frozen=True, slots=True)
class Resent:
    """What a request repeats of earlier exchanges."""

    scope: bytes  # digest of all but the messages that an exchange must share with it
    request: bytes  # digest of all its messages
    known: tuple[bytes, ...]  # keys of the remembered exchanges that it begins with
    start: int = 0  # row of routed experts to begin at; 0: all are needed
    by_ids: bool = False  # `start` rests on the ids that the backend gave beforehand


@dataclass(frozen=True, slots=True)
class _Exchange:
    tokens: int = 0  # prompt and answer
    cached: int = 0  # of the prompt

    def cut_to(self, tokens: int) -> "_Exchange":
        return _Exchange(min(self.tokens, tokens), min(self.cached, tokens))


class KnownPrefixes:
    """The tokens of the latest exchanges whose routing is in the log."""

    def __init__(self, exchanges: int = EXCHANGES, text_bytes: int = TEXT_BYTES) -> None:
        self._exchanges: OrderedDict[bytes, _Exchange] = OrderedDict()  # the latest used last
        self._texts = TokenTexts(text_bytes)  # of the same keys
        self._limit = exchanges
        self._weights: str | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """For another backend: neither rows nor what may be believed are known."""
        self.clear()
        self._one_came_back = self._one_did_not = False  # an answer, as the tokens that were sampled
        self.believes_told = True  # the ids that the backend gives beforehand

    def look_up(self, route: Route, body: bytes) -> Resent | None:
        """What the request in `body` repeats; None when it is no chat request."""
        try:
            request = parse_object(body)
            messages = _value(request, "messages")
            shape = [route.group_id, route.rollout_id, *(_value(request, name) for name in SHAPING_FIELDS)]
            conversation = Conversation().extended(messages if isinstance(messages, list) else ())
        except (AskingError, ValueError):
            return None
        scope = _digest(json.dumps(shape).encode())
        keys = (_key(scope, answer) for answer in conversation.answers)
        known = tuple(key for key in keys if key in self._exchanges)
        for key in known[-1:]:
            self._exchanges.move_to_end(key)
        return self.settled(Resent(scope, conversation.digest, known))

    @property
    def wants_told(self) -> bool:
        """Whether the ids of a prompt, told beforehand, would count."""
        return self.believes_told and not self._comes_back

    def settled(self, resent: Resent, prompt: bytes = b"") -> Resent:
        """The same with the row to begin at, by all that is known now.

        `prompt` is the text of the request's ids, see token_texts; empty where they are not known.
        """
        shared = self._shared(resent.known, prompt) if prompt and self.believes_told else None
        if shared is not None:
            return replace(resent, start=_first_unknown(shared), by_ids=True)
        longest = self._longest(resent.known)
        start = _first_unknown(longest.tokens if self._comes_back else longest.cached)
        return replace(resent, start=start, by_ids=False)

    def leaves_rows_out(self, resent: Resent, readings: Sequence[ChoiceReading], start: int) -> bool:
        """Whether a completion shows that rows before `start`, which it does not tell, are others."""
        return any(
            not reading.num_retractions
            and (
                _cached_tokens(reading) < start
                or self._asked_too_little(resent, prompt_text_of(reading), start)
            )
            for reading in readings
        )

    def learn(
        self, resent: Resent, readings: Sequence[ChoiceReading], *, start: int, is_recorded: bool
    ) -> None:
        """What a completion shows whose rows were asked for from `start` on; an unreadable one nothing."""
        if not readings:
            self.lose(resent)
        for version in (each for reading in readings for each in reading.weight_versions.values()):
            self.weights_seen(version)
        longest = self._longest(resent.known)
        is_valid = start <= _first_unknown(longest.tokens)  # what it rests on was not withdrawn meanwhile
        for reading in readings:
            cached, prompt = _cached_tokens(reading), prompt_text_of(reading)
            if (
                len(readings) == 1 and longest.tokens
            ):  # several samples share a prompt, which is cached for all
                self._judge(resent, longest, cached, prompt)
            if self._asked_too_little(resent, prompt, start):
                self._doubt(resent)
            elif cached < start:
                self._cut(resent.known, cached)
            elif is_recorded and is_valid and (tokens := _tokens_with_rows(reading)):
                answer = Wording(resent.request, reply_digest(reading.message or {}))
                text = whole_text_of(prompt, reading, tokens)
                self._remember(_key(resent.scope, answer), _Exchange(tokens, cached), text)

    def refused(self, resent: Resent) -> None:
        """The prompt was shorter than what should have been its prefix."""
        self._doubt(resent)
        self.lose(resent)

    def lose(self, resent: Resent) -> None:
        """Nobody can tell what the backend computed anew, so the next turn asks for everything."""
        self._cut(resent.known, 0)

    def weights_seen(self, version: object) -> None:
        """Other weights choose other experts; a version that is no text says nothing."""
        if isinstance(version, str) and version != self._weights:
            self._weights = version
            self.clear()

    def clear(self) -> None:
        """All rows are to be asked for again."""
        self._exchanges.clear()
        self._texts.clear()

    @property
    def _comes_back(self) -> bool:
        return self._one_came_back and not self._one_did_not

    def _longest(self, known: Iterable[bytes]) -> _Exchange:
        found = (self._exchanges[key] for key in known if key in self._exchanges)
        return max(found, key=lambda exchange: exchange.tokens, default=_Exchange())

    def _shared(self, known: Iterable[bytes], prompt: bytes) -> int | None:
        """How many tokens of the prompt have rows that are known; None where no exchange's ids are."""
        most: int | None = None
        by_length = sorted(
            ((self._exchanges[key].tokens, key) for key in known if key in self._exchanges), reverse=True
        )
        for tokens, key in by_length:
            if most is not None and tokens <= most:
                break
            if text := self._texts.get(key):
                most = max(most or 0, min(tokens, shared_ids(text, prompt)))
        return most

    def _asked_too_little(self, resent: Resent, prompt: bytes, start: int) -> bool:
        """Whether rows were left out that nobody has told, as the ids of the reply show."""
        texts = [text for key in reversed(resent.known) if (text := self._texts.get(key))]
        if not start or not prompt or not texts:
            return False
        return not any(_first_unknown(shared_ids(text, prompt)) >= start for text in texts)

    def _doubt(self, resent: Resent) -> None:
        """What told that the prompt begins with the tokens of an exchange was wrong."""
        self._one_did_not = True
        if resent.by_ids:
            self.believes_told = False

    def _judge(self, resent: Resent, earlier: _Exchange, cached: int, prompt: bytes) -> None:
        """Whether the answer of the earlier exchange came back as it was.

        By the ids of both; where these are not remembered by what the later one had cached.
        """
        key = next((key for key in resent.known if self._exchanges.get(key) is earlier), b"")
        if prompt and (text := self._texts.get(key)):
            came_back = prompt.startswith(text)
            self._one_came_back |= came_back
            self._one_did_not |= not came_back
        elif cached >= earlier.tokens - 1:  # its last token was never computed
            self._one_came_back = True
        elif cached >= earlier.cached:  # with less the backend has forgotten, which says nothing
            self._one_did_not = True

    def _remember(self, key: bytes, exchange: _Exchange, text: bytes) -> None:
        self._exchanges[key] = exchange
        self._exchanges.move_to_end(key)
        self._texts.put(key, text)
        if len(self._exchanges) > self._limit:
            forgotten, _ = self._exchanges.popitem(last=False)
            self._texts.forget(forgotten)

    def _cut(self, known: Iterable[bytes], tokens: int) -> None:
        for key in known:
            if key in self._exchanges:
                self._exchanges[key] = self._exchanges[key].cut_to(tokens)


def readings_of(reply: bytes) -> list[ChoiceReading]:
    """The choices of a completion; none where it cannot be read."""
    try:
        return read_chat(reply, with_routing=False)
    except UndecodableReply:
        return []


def _first_unknown(tokens: int) -> int:
    """The row to begin at where the rows of `tokens` are known, but for the last, which has none."""
    return max(0, tokens - 1 - OVERLAP_ROWS)


def _cached_tokens(reading: ChoiceReading) -> int:
    """Tokens of the prompt whose rows are surely those of an earlier exchange."""
    return 0 if reading.num_retractions else reading.cached_tokens or 0


def _tokens_with_rows(reading: ChoiceReading) -> int | None:
    """How many tokens prompt and answer are, where the reply has routing and tells what was cached."""
    has_rows = any(reading.routed_experts.values())
    if not has_rows or reading.cached_tokens is None or reading.num_retractions:
        return None
    found = (reading.prompt_token_counts, reading.completion_token_counts)
    prompt, sampled = (next((n for n in each.values() if type(n) is int), 0) for each in found)
    return prompt + sampled if prompt > 0 and sampled > 0 else None


def _key(scope: bytes, answer: Wording) -> bytes:
    return _digest(scope + answer.request + answer.reply)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _value(request: JsonObject, name: str) -> object:
    member = request.member(name)
    return None if member is None else loads(request.body[member.value_start : member.value_end]).value
