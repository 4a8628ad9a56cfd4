"""The deadline of requests to a store, and a warning while its first answer is overdue.

A store that accepts connections and then does not answer is an error after the deadline. Without
the warning, an operator who just started a broker or a tool would take the wait for a hang.
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
        """`store` is the name of the store in log lines."""
        self.seconds = seconds
        self._store = store
        self._is_quiet = seconds <= PATIENCE_SECONDS

    @asynccontextmanager
    async def kept(self, *, is_answered: bool = True) -> AsyncGenerator[None]:
        """Raise TimeoutError once the deadline has passed.

        `is_answered`: a block that succeeds means that the store has answered; no later block
        warns.
        """
        if self._is_quiet:
            async with asyncio.timeout(self.seconds):
                yield
            return
        timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._warn_once)
        try:
            async with asyncio.timeout(self.seconds):
                yield
        finally:
            timer.cancel()
        self._is_quiet = self._is_quiet or is_answered

    def _warn_once(self) -> None:
        if not self._is_quiet:
            self._is_quiet = True
            _log.warning(
                "The remote tier %s has not answered for %g s: waiting for its first answer, "
                "%g s at most.",
                self._store,
                PATIENCE_SECONDS,
                self.seconds,
            )
