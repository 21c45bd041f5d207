"""Recorded replies by the requests that brought them, so that a log can stand in for its backend.

Two requests are the same when they differ only in how they want to be answered: streaming, logprobs and the
`return_...` fields are no part of what is asked. The i-th time that a request comes, it gets the i-th reply
that was recorded for it, in the order of the requests' starts, and after the last one the first again.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from turnstile.addon.backends.asking import Asking, harness_of
from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.restoring import restore_chat
from turnstile.addon.tracelog.errors import LogCorruptError
from turnstile.addon.tracelog.reader import LogReader, log_paths, open_log
from turnstile.addon.tracelog.records import Exchange

CHAT_PATH = "/v1/chat/completions"
HOW_TO_ANSWER = frozenset({"stream", "stream_options", "logprobs", "top_logprobs"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    log: LogReader
    offset: int


class RecordedReplies:
    """The whole replies in some logs, which stay open. Use as a context manager; safe to use from threads."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Reads the logs once. Raises TraceLogError when one of them is none."""
        self.damages: list[str] = []  # what could not be read, in words
        self.facts: BackendFacts | None = None  # of the backend that answered first
        self.started_at = 0.0  # Unix seconds, of the first exchange
        self._places: dict[str, list[_Place]] = {}
        self._served: defaultdict[str, int] = defaultdict(int)
        self._lock = Lock()
        with ExitStack() as opened:
            self._logs = [opened.enter_context(open_log(path)) for path in log_paths(paths)]
            self._index()
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def answer(self, method: str, path: str, body: bytes) -> Answer | None:
        """The reply recorded for that request, cut down to what this one asks for; None: there is none."""
        key = request_key(method, path, body)
        with self._lock:
            places = self._places.get(key)
            if not places:
                return None
            place = places[self._served[key] % len(places)]
            self._served[key] += 1
            exchange = place.log.exchange(place.offset)
        return _cut_down(exchange, body)

    def _index(self) -> None:
        found: list[tuple[float, str, str, _Place]] = []
        for log in self._logs:
            try:
                for offset, exchange in log.exchanges():
                    if key := self._key(exchange):
                        found.append((exchange.started_at, exchange.exchange_id, key, _Place(log, offset)))
            except LogCorruptError as error:
                self.damages.append(str(error))
            if log.damage is not None:
                self.damages.append(f"{log.path}: {log.damage.message}")
        found.sort(key=lambda entry: entry[:3])
        for _, _, key, place in found:
            self._places.setdefault(key, []).append(place)
        if found:
            first = found[0][3]
            self.started_at = found[0][0]
            self.facts = _facts(first.log.exchange(first.offset))

    def _key(self, exchange: Exchange) -> str | None:
        """None for an exchange without a whole reply that can be given again."""
        if exchange.outcome != "complete" or exchange.status is None:
            return None
        try:
            exchange.reply_content()
            return request_key(exchange.method, exchange.path, exchange.forwarded())
        except ValueError as error:
            self.damages.append(f"{exchange.exchange_id} is left out: {error}")
            return None


def request_key(method: str, path: str, body: bytes) -> str:
    """What two requests have in common that ask for the same thing."""
    try:
        request = json.loads(body)
        if isinstance(request, dict):
            asked = {name: request[name] for name in request if not _says_how_to_answer(name)}
            body = json.dumps(asked, sort_keys=True).encode()
    except (ValueError, RecursionError):
        pass  # the bytes as they are
    target = path.partition("?")[0]
    return hashlib.sha256(b"\n".join([method.encode(), target.encode(), body])).hexdigest()


def _says_how_to_answer(name: str) -> bool:
    return name in HOW_TO_ANSWER or name.startswith("return_")


def _cut_down(exchange: Exchange, body: bytes) -> Answer:
    """The recorded reply as the backend gives it to a request that asks for no more than `body` does."""
    named = [value for name, value in exchange.reply_headers if name.lower() == "content-type"]
    content_type = named[0] if named else "application/json"
    status, reply = exchange.status or 500, exchange.reply_content()
    if exchange.path.partition("?")[0] != CHAT_PATH:
        return Answer(status, content_type, reply)
    try:
        asking = _asking(exchange, body)
    except AskingError:
        return Answer(status, content_type, reply)
    restored = restore_chat(reply, status, asking)
    return Answer(status, restored.content_type or content_type, restored.body)


def _asking(exchange: Exchange, body: bytes) -> Asking:
    """The request now, as if what was asked for when it was recorded had been added to it."""
    facts = _facts(exchange)
    return Asking((), harness_of(body, facts), wanted=harness_of(exchange.forwarded(), facts).flags)


def _facts(exchange: Exchange) -> BackendFacts | None:
    record: Any = exchange.backend
    return BackendFacts.from_record(record) if record else None
