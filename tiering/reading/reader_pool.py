"""How many remote reads run at once, and who waits behind them (`RemoteStorageThreadPool`).

A remote read is a coroutine that waits for the tier most of its life, so what
`remote.log.reader.threads` bounds is not threads but reads under way. Who finds all of them busy
waits for its turn as long as its client does, and leaves then without having read: when the store
hangs, the queue holds no more than the fetches of the moment. Nobody is turned away at once. A
client that is refused in a millisecond asks again in the next one.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..permits import Permits

T = TypeVar("T")


class NoTurnError(Exception):
    """All readers were busy for as long as the read could wait."""


class ReaderPool:
    """Runs at most `threads` reads at a time; the others wait for their turn."""

    def __init__(self, threads: int, max_pending: int) -> None:
        self._permits = Permits(threads)
        self._max_pending = max_pending
        self._admitted = 0

    @property
    def threads(self) -> int:
        """Reads that run at a time; may be changed at any time."""
        return self._permits.limit

    @threads.setter
    def threads(self, threads: int) -> None:
        self._permits.limit = threads

    @property
    def queue_size(self) -> int:
        """Reads that wait for others to end (`RemoteLogReaderTaskQueueSize`).

        Kafka's queue takes `remote.log.reader.max.pending.tasks` at most; ours lets those beyond
        wait before its door, and they do not count.
        """
        return min(self._max_pending, max(0, self._admitted - self.threads))

    @property
    def idle_share(self) -> float:
        """How many of the threads have nothing to do, from 0 to 1."""
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
