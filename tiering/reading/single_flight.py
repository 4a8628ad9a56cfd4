"""One load for all who want the same thing at the same time.

A load belongs to nobody who waits for it: a consumer that gives up, or whose fetch times out, does
not cancel it, so its retry finds the result. Those who wait now get the error of a load that
fails; the next caller tries again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from ...clients.task_owner import TaskOwner

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _told_to_those_who_wait(_: asyncio.Task[object], __: BaseException) -> None:
    """A load's failure is the answer to its readers; a prefetch may fail with none."""


class SingleFlight(Generic[K, V]):
    """Loads by key, each running at most once at a time."""

    def __init__(self, loads_max: int) -> None:
        self._flights: dict[K, asyncio.Task[V]] = {}
        self._owner = TaskOwner(loads_max, _told_to_those_who_wait)

    def __contains__(self, key: K) -> bool:
        return key in self._flights

    def __len__(self) -> int:
        return len(self._flights)

    async def load(self, key: K, loader: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """What `loader()` gives, or what the load already under way gives."""
        return await asyncio.shield(self.begin(key, loader))

    def begin(self, key: K, loader: Callable[[], Coroutine[Any, Any, V]]) -> asyncio.Task[V]:
        """Start the load, or join the one under way, without waiting for it."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = self._owner.start(loader(), f"load {key}")
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        return flight

    async def stop(self) -> None:
        """Cancel what is under way."""
        await self._owner.stop()
