"""Whether a test's broker has given up, for those who wait for it: they hear of it at once.

A broker gives up when it cannot do its work any more, such as when its disk fails. In a test, it is
mostly the test that has replaced what the broker stands on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .broker_error import BrokerError

T = TypeVar("T")


class GivingUp:
    """Belongs to one event loop, except for `message`."""

    def __init__(self) -> None:
        self.message = ""
        """Why the broker has given up; empty while it works."""
        self._waits: set[asyncio.Timeout] = set()

    def come(self, message: str) -> None:
        """The broker has given up, for this reason."""
        self.message = message
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time())

    async def until(self, act: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
        """Run `act`, but not after the broker has given up: that raises BrokerError."""
        if self.message:
            raise BrokerError(self.message)
        wait = asyncio.timeout(None)
        try:
            async with wait:
                self._waits.add(wait)
                return await act(*args)
        except TimeoutError:
            if wait.expired():
                raise BrokerError(self.message) from None
            raise
        finally:
            self._waits.discard(wait)
