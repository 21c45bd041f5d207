"""The proxy for programs on asyncio: each call that takes time is awaited, in a thread."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from turnstile.compiler.compilation import Compilation
from turnstile.compiler.sequence import TrainingSequence
from turnstile.errors import ProxyError
from turnstile.proxy import Proxy


class AsyncProxy:
    """As Proxy, which it takes the arguments of; it starts when its context is entered.

    async with turnstile.AsyncProxy(backend_url="http://localhost:30000") as proxy:
        group_id = await proxy.create_group()
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._arguments, self._named = arguments, named
        self._proxy: Proxy | None = None

    async def __aenter__(self) -> Self:
        self._proxy = await asyncio.to_thread(Proxy, *self._arguments, **self._named)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def addr(self) -> str:
        """host:port."""
        return self._running.addr

    def base_url(self, group_id: str, rollout_id: str | None = None) -> str:
        """As Proxy.base_url."""
        return self._running.base_url(group_id, rollout_id)

    async def create_group(
        self,
        max_trajectory_tokens: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        group_id: str | None = None,
    ) -> str:
        """As Proxy.create_group."""
        return await asyncio.to_thread(self._running.create_group, max_trajectory_tokens, metadata, group_id)

    async def get_group(self, group_id: str) -> dict[str, Any]:
        """As Proxy.get_group."""
        return await asyncio.to_thread(self._running.get_group, group_id)

    async def add_reward(
        self,
        group_id: str,
        reward: float,
        *,
        rollout_id: str | None = None,
        sequence_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """As Proxy.add_reward."""
        target = {"rollout_id": rollout_id, "sequence_id": sequence_id}
        await asyncio.to_thread(self._running.add_reward, group_id, reward, metadata=metadata, **target)

    async def flush(self) -> None:
        """As Proxy.flush."""
        await asyncio.to_thread(self._running.flush)

    async def health(self) -> dict[str, Any]:
        """As Proxy.health."""
        return await asyncio.to_thread(self._running.health)

    async def get_training_sequences(self, group_id: str) -> list[TrainingSequence]:
        """As Proxy.get_training_sequences."""
        return await asyncio.to_thread(self._running.get_training_sequences, group_id)

    async def compile_group(self, group_id: str) -> Compilation:
        """As Proxy.compile_group."""
        return await asyncio.to_thread(self._running.compile_group, group_id)

    async def close(self) -> None:
        """As Proxy.close."""
        if self._proxy is not None:
            await asyncio.to_thread(self._proxy.close)

    @property
    def _running(self) -> Proxy:
        if self._proxy is None:
            raise ProxyError("the proxy is not started: use it inside `async with`")
        return self._proxy
