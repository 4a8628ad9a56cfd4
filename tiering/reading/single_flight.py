"""Shares one load among all callers that want the same key at the same time.

No waiting caller owns the load: a consumer that gives up, or whose fetch times out, does not cancel
it, so its retry finds the result. If a load fails, all current waiters get its error; the next
caller starts a new load.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from ...clients.runtime.task_owner import TaskOwner

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _ignore_failure(_: asyncio.Task[object], __: BaseException) -> None:
    """Ignore a failed load: its waiters get the error, and a prefetch has none."""


class SingleFlight(Generic[K, V]):
    """Runs loads by key, at most one per key at a time."""

    def __init__(self, loads_max: int) -> None:
        self._flights: dict[K, asyncio.Task[V]] = {}
        self._owner = TaskOwner(loads_max, _ignore_failure)

    def __contains__(self, key: K) -> bool:
        return key in self._flights

    def __len__(self) -> int:
        return len(self._flights)

    async def load(self, key: K, loader: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result of `loader()`, or of the load already running for the key."""
        return await asyncio.shield(self.begin(key, loader))

    def begin(self, key: K, loader: Callable[[], Coroutine[Any, Any, V]]) -> asyncio.Task[V]:
        """Start the load or join the running one, without waiting for it."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = self._owner.start(loader(), f"load {key}")
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        return flight

    async def stop(self) -> None:
        """Cancel all running loads."""
        await self._owner.stop()
