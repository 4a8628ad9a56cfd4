"""A limit on concurrent tasks that can change at run time (`remote.log.*.thread*`).

It is an `asyncio.Semaphore` with a variable bound: a higher bound admits waiting tasks at once; a
lower one lets running tasks finish and admits none until fewer are left. Waiting is in FIFO order.
"""

import asyncio
from collections import deque


class Permits:
    """An asynchronous context manager that at most `limit` tasks can be inside."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._let_in()

    @property
    def idle_share(self) -> float:
        """The share of permits that are not in use, from 0 to 1."""
        return max(0.0, 1 - self._inside / self._limit)

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def enter(self) -> None:
        """Wait for a permit."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # Admitted and cancelled in the same iteration of the loop.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the permit back."""
        self._inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and (self._inside < self._limit or self._waiting[0].done()):
            turn = self._waiting.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)
