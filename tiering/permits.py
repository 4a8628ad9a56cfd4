"""How many may be at work at once, changeable while they are (`remote.log.*.thread*` at run time).

`asyncio.Semaphore` with a bound that moves: a higher one lets in those who wait at once, a lower
one lets those at work end and nobody in until fewer are left. Who waited longest comes first.
"""

import asyncio
from collections import deque


class Permits:
    """Asynchronous context: at most `limit` are inside."""

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
        """How many of those that may be inside are not, from 0 to 1."""
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
                # Let in and cancelled in the same turn of the loop.
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
