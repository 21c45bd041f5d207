"""Keeps what is known of the backend: probed once, and again after it was away or wanted a key."""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from turnstile.addon.backends.errors import BackendNeedsKey, BackendUnreachable
from turnstile.addon.backends.facts import BackendFacts
from turnstile.addon.backends.probe import probe
from turnstile.addon.capture.options import BackendChoice
from turnstile.addon.tracelog.records import WeightReading

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 5.0
KEY_PAUSE_S = 5.0  # between two probes that only try another key
REFUSED_KEYS = 256  # that are remembered


class BackendWatch:
    """The facts of the backend at `url`.

    `learned` is called with each new set before they are used, `weights_read` with the weight version in it;
    `shortcoming_of` says what the user should know of it.
    """

    def __init__(
        self,
        url: str,
        choice: BackendChoice,
        learned: Callable[[Mapping[str, Any]], object],
        weights_read: Callable[[WeightReading], object] = lambda reading: None,
        *,
        shortcoming_of: Callable[[BackendFacts], str | None] = lambda facts: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.known: BackendFacts | None = None  # None: not probed yet, or away since
        self.problem: str | None = None  # what the last probe did not find out, and why
        self.shortcoming: str | None = None  # of what the last probe found
        self._choice = choice
        self._learned, self._weights_read, self._shortcoming_of = learned, weights_read, shortcoming_of
        self._probing: asyncio.Task[None] | None = None
        self._refused_keys: OrderedDict[bytes, None] = OrderedDict()  # digests, the latest used last
        self._clock, self._next_key_at = clock, float("-inf")

    def start(self, authorization: str | None = None) -> asyncio.Task[None]:
        """Probes in the background; one probe at a time, so an earlier one's key may be the one used."""
        if not self._is_probing():
            if self._refused_keys:
                self._next_key_at = self._clock() + KEY_PAUSE_S
            self._probing = asyncio.create_task(self._probe(authorization))
        assert self._probing is not None
        return self._probing

    async def facts(self, authorization: str | None) -> BackendFacts | None:
        """What is known; probes first where nothing is, with the harness's own `authorization`.

        None when the backend does not answer the probe, or wants a key and another was tried just now.
        """
        if self.known is None and self._may_try(authorization):
            await asyncio.wait([self.start(authorization)])
        if self.known is None and self._refused_keys and self._may_try(authorization):
            await asyncio.wait([self.start(authorization)])  # the first one had another key
        return self.known

    def was_away(self) -> None:
        """What comes back may be another server: it will be asked again."""
        self.known = None
        self._refused_keys.clear()

    def _is_probing(self) -> bool:
        return self._probing is not None and not self._probing.done()

    def _may_try(self, authorization: str | None) -> bool:
        key = _digest(authorization)
        if key in self._refused_keys:
            self._refused_keys.move_to_end(key)
            return False
        return not self._refused_keys or self._is_probing() or self._clock() >= self._next_key_at

    def _refused(self, authorization: str | None) -> None:
        self._refused_keys[_digest(authorization)] = None
        if len(self._refused_keys) > REFUSED_KEYS:
            self._refused_keys.popitem(last=False)

    async def _probe(self, authorization: str | None) -> None:
        asked_at = time.time()
        try:
            facts = await asyncio.to_thread(
                probe, self.url, authorization=authorization, timeout_s=PROBE_TIMEOUT_S
            )
        except BackendNeedsKey as error:
            self._refused(authorization)
            self._found_nothing(str(error))
        except BackendUnreachable as error:
            self._found_nothing(str(error))
        except Exception as error:  # a fault of ours must not stop the capture
            logger.exception("turnstile: the probe of the backend failed")
            self._found_nothing(f"the probe of {self.url} failed: {error!r}")
        else:
            self._found(facts)
            self._note_weights(facts, asked_at)

    def _found_nothing(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("turnstile: the backend does not say what it is: %s", problem)
        self.problem = problem

    def _found(self, facts: BackendFacts) -> None:
        if facts.kind == "unknown" and self._choice != "auto":
            facts = replace(facts, kind=self._choice)
        if facts.kind == "unknown":
            self._found_nothing(
                f"{self.url} answers as none that Turnstile knows (a router?), so token ids may be missing; "
                "if it is SGLang behind a router, set turnstile_backend=sglang"
            )
        else:
            self.problem = None
            logger.info("turnstile: the backend at %s is %s %s", self.url, facts.kind, facts.version_text)
        self._note_shortcoming(self._shortcoming_of(facts))
        self._learned(facts.as_record())
        self.known = facts

    def _note_shortcoming(self, shortcoming: str | None) -> None:
        if shortcoming not in (None, self.shortcoming):
            logger.warning("turnstile: %s", shortcoming)
        self.shortcoming = shortcoming

    def _note_weights(self, facts: BackendFacts, asked_at: float) -> None:
        version = facts.model_info.get("weight_version")
        if isinstance(version, str):
            self._weights_read(
                WeightReading(weight_version=version, asked_at=asked_at, answered_at=time.time())
            )


def _digest(authorization: str | None) -> bytes:
    """What is kept of a key: nobody can use it."""
    return hashlib.sha256((authorization or "").encode("utf-8", "surrogateescape")).digest()
