"""How long a request to a store may take, and what is said while its first answer is awaited.

A store that accepts connections and then says nothing is an error after the deadline. Whoever has
just started a broker or a tool would take the half minute until then for a hang of ours.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0


class RequestDeadline:
    """The deadline of each request to one store."""

    def __init__(self, store: str, seconds: float) -> None:
        """`store` is how the store is called in a sentence."""
        self.seconds = seconds
        self._store = store
        self._is_told = seconds <= PATIENCE_SECONDS

    @asynccontextmanager
    async def kept(self, *, is_answered: bool = True) -> AsyncGenerator[None]:
        """Raise TimeoutError once the deadline is over.

        `is_answered`: at the end the store has answered, and from then on nothing is said.
        """
        if self._is_told:
            async with asyncio.timeout(self.seconds):
                yield
            return
        timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._tell)
        try:
            async with asyncio.timeout(self.seconds):
                yield
        finally:
            timer.cancel()
        self._is_told = self._is_told or is_answered

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            _log.warning(
                "The remote tier %s has not answered for %g s: its first answer is waited for, "
                "%g s at most.",
                self._store,
                PATIENCE_SECONDS,
                self.seconds,
            )
