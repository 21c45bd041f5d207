"""Has flows tell, a moment after they are recorded, what became of their exchanges.

Only where somebody can look: the merging is done on a thread of its own, behind what is written. Of a group
exchanges are merged up to the first one that is still under way, see `turnstile.compiler.following`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Concatenate

from mitmproxy.http import HTTPFlow

from turnstile.addon.capture.annotations import add_standing
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.merging import Merging
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.tracelog.records import Exchange

logger = logging.getLogger(__name__)

type _Waiting = dict[str, tuple[float, HTTPFlow]]  # by exchange: when it began, its flow


class Follower:
    """Of one session; `changed` is called on the event loop with flows that tell more than before."""

    def __init__(
        self,
        merging: Merging,
        recorder: Recorder,
        in_flight: Mapping[str, InFlight],
        changed: Callable[[Sequence[HTTPFlow]], object],
    ) -> None:
        self._merging, self._recorder, self._in_flight = merging, recorder, in_flight
        self._changed = changed
        self._thread = ThreadPoolExecutor(1, "turnstile merging")
        self._waiting: dict[str, _Waiting] = {}  # by group
        self._to_merge = dict[str, None]()  # groups, in order
        self._task: asyncio.Task[None] | None = None
        self._is_closed = self._has_failed = False

    def recorded(self, flow: HTTPFlow, exchange: Exchange) -> None:
        """The exchange goes into the log now, and is under way no more."""
        if self._is_closed:
            return
        of_group = self._waiting.setdefault(exchange.group_id, {})
        of_group[exchange.exchange_id] = exchange.started_at, flow
        self._to_merge[exchange.group_id] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())

    async def settled(self, timeout_s: float) -> None:
        """Returns when nothing is left to be merged, or when that takes too long."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    async def group_page(self, group_id: str, texts: Mapping[int, str], links: Mapping[str, str]) -> bytes:
        """See Merging: of all that is recorded by now."""
        await self._recorder.flush()
        return await self._on_thread(self._merging.group_page, group_id, texts, links)

    def close(self) -> None:
        """Nothing is told any more; does not wait for what is being merged. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._thread.submit(self._merging.close)
        self._thread.shutdown(wait=False)

    async def _follow(self) -> None:
        while self._to_merge:
            groups, self._to_merge = self._to_merge, {}
            # what is under way no more is written by the time of the flush
            befores = {group_id: self._first_under_way(group_id) for group_id in groups}
            await self._recorder.flush()
            for group_id, before in befores.items():
                try:
                    await self._merge(group_id, before)
                except Exception as error:
                    self._note(error)

    async def _merge(self, group_id: str, before: float) -> None:
        standings = await self._on_thread(self._merging.standings, group_id, before)
        waiting = self._waiting.pop(group_id, {})
        told = [(waiting.pop(each.exchange_id), each) for each in standings if each.exchange_id in waiting]
        # one that began before then and was not told of is not in the log, or its group was let go
        if left := {name: each for name, each in waiting.items() if each[0] >= before}:
            self._waiting[group_id] = left
        for (_, flow), standing in told:
            add_standing(flow, standing)
        if told:
            self._changed([flow for (_, flow), _ in told])

    async def _on_thread[**Arguments, Result](
        self,
        method: Callable[Concatenate[Path, int, Arguments], Result],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Result:
        position = self._recorder.position
        call = partial(method, Path(position.path), position.offset, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _first_under_way(self, group_id: str) -> float:
        """When the first exchange of a group began that has not ended; infinite where none is under way."""
        return min(
            (
                held.flow.request.timestamp_start
                for held in self._in_flight.values()
                if held.route.group_id == group_id
            ),
            default=inf,
        )

    def _note(self, error: Exception) -> None:
        if not self._has_failed:
            logger.warning(
                "turnstile: flows do not tell of turns and splits (said once): %s", type(error).__name__
            )
        self._has_failed = True
