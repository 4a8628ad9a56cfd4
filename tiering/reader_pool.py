"""How many remote reads run at once, and how many may wait (`RemoteStorageThreadPool`).

A remote read is a coroutine that waits for the tier most of its life, so what
`remote.log.reader.threads` bounds is not threads but reads under way. The queue behind them is
bounded as well: a read that finds it full fails at once, and only its own partition learns of it.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..clients.errors import ErrorCode, KafkaError
from .permits import Permits

T = TypeVar("T")


class ReaderPool:
    """Runs at most `threads` reads at a time, with at most `max_pending` more waiting."""

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
        """Reads that wait for others to end (`RemoteLogReaderTaskQueueSize`)."""
        return max(0, self._admitted - self.threads)

    @property
    def idle_share(self) -> float:
        """How many of the threads have nothing to do, from 0 to 1."""
        return self._permits.idle_share

    async def run(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `read()`, or KafkaError(KAFKA_STORAGE_ERROR) if too many wait already."""
        if self._admitted >= self.threads + self._max_pending:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "Too many reads wait for the remote tier; try again later",
            )
        self._admitted += 1
        try:
            async with self._permits:
                return await read()
        finally:
            self._admitted -= 1
