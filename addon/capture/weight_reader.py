"""Reads the backend's weight version apart from any exchange, for a stream does not tell its own.

A reading that is begun after a stream has ended serves every stream that had ended by then. So one is under
way at a time, however many streams end, and while the weights stay the same there is one a second at most.
"""

import asyncio
import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from turnstile.addon.backends.direct import direct_opener
from turnstile.addon.tracelog.records import WeightReading

TIMEOUT_S = 5.0
PAUSE_S = 0.1  # between two readings, each of which costs about as much as 30 chunks of a stream
UNCHANGED_PAUSE_S = 1.0  # where the second said the same as the first
ANSWER_LIMIT_BYTES = 1 << 20
PATHS = ("/model_info", "/get_model_info")  # the second before SGLang 0.5.8


class WeightReader:
    """Asks the backend at `url`; `record` is called with each reading, on the event loop."""

    def __init__(self, url: str, record: Callable[[WeightReading], object]) -> None:
        self._url, self._record = url, record
        self._reading: asyncio.Task[None] | None = None
        self._authorization: str | None = None
        # streams: that have ended, that a reading has followed, that somebody waits for
        self._ended = self._served = self._wanted = 0
        self._latest: str | None = None
        self._progress = asyncio.Event()  # set, and replaced, with every reading
        self._hurry = asyncio.Event()  # set when somebody waits

    def stream_ended(self, authorization: str | None) -> None:
        """A reading shall follow; with the harness's `authorization`, for the backend may want one."""
        self._authorization = authorization
        self._ended += 1
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def settled(self) -> None:
        """Returns once a reading has followed every stream that has ended by now."""
        self._wanted = ended = self._ended
        self._hurry.set()
        while self._served < ended:
            await self._progress.wait()

    async def _read(self) -> None:
        while self._served < self._ended:
            serving, asked_at = self._ended, time.time()
            version = await asyncio.to_thread(self._version, self._authorization)
            self._record(WeightReading(weight_version=version, asked_at=asked_at, answered_at=time.time()))
            self._served = serving
            self._progress.set()
            self._progress = asyncio.Event()
            pause_s = PAUSE_S if version is None or version != self._latest else UNCHANGED_PAUSE_S
            self._latest = version
            await self._pause(pause_s)

    async def _pause(self, seconds: float) -> None:
        if self._wanted > self._served:
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    def _version(self, authorization: str | None) -> str | None:
        """What the backend says; None when it does not say."""
        headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
        for path in PATHS:
            request = urllib.request.Request(self._url + path, headers=headers)
            try:
                with direct_opener().open(request, timeout=TIMEOUT_S) as answer:
                    return _version_in(answer.read(ANSWER_LIMIT_BYTES))
            except urllib.error.HTTPError as error:
                error.close()
            except Exception:  # down, or no JSON: either way it did not say
                return None
        return None


def _version_in(model_info: bytes) -> str | None:
    version = json.loads(model_info).get("weight_version")
    return version if isinstance(version, str) else None
