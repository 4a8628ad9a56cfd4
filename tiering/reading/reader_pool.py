"""Limits how many remote reads run at once and queues the rest (`RemoteStorageThreadPool`).

A remote read is a coroutine that mostly waits for the tier, so `remote.log.reader.threads` bounds
running reads, not threads. A read that finds all readers busy waits for its turn as long as its
client waits, and then gives up: when the store hangs, the queue holds only the current fetches.
No read is rejected at once, because a client that is rejected in a millisecond retries in the next
one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..permits import Permits

T = TypeVar("T")


class NoTurnError(Exception):
    """All readers were busy for as long as a read could wait."""


class ReaderPool:
    """Runs at most `threads` reads at a time; the others wait for their turn."""

    def __init__(self, threads: int, max_pending: int) -> None:
        self._permits = Permits(threads)
        self._max_pending = max_pending
        self._admitted = 0

    @property
    def threads(self) -> int:
        """How many reads may run at a time; may be changed at any time."""
        return self._permits.limit

    @threads.setter
    def threads(self, threads: int) -> None:
        self._permits.limit = threads

    @property
    def queue_size(self) -> int:
        """Reads that wait for others to end (`RemoteLogReaderTaskQueueSize`).

        Kafka's queue holds at most `remote.log.reader.max.pending.tasks` reads. Here further reads
        may wait, too, but they are not counted.
        """
        return min(self._max_pending, max(0, self._admitted - self.threads))

    @property
    def idle_share(self) -> float:
        """The share of idle readers, from 0 to 1."""
        return self._permits.idle_share

    async def run(self, read: Callable[[], Coroutine[Any, Any, T]], wait_seconds: float) -> T:
        """The result of `read()`. Raises NoTurnError if it could not begin in this time."""
        self._admitted += 1
        try:
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._permits.enter()
            except TimeoutError:
                raise NoTurnError from None
            try:
                return await read()
            finally:
                self._permits.leave()
        finally:
            self._admitted -= 1
