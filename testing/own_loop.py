"""The event loop of a test's broker, which does not share what a test may change.

It is asyncio's own, whatever policy the process has, so that a broker is the same in every suite.
Its time is the system's, also where a test has frozen or moved the clocks of its process: clients
in C, or in other processes, know nothing of that, and would wait for a broker that stands still. A
process that is forked gets nothing of its epoll object, which both would share.
"""

import asyncio
import selectors

from ..clients.runtime.own_descriptors import keep_from_forks
from .system_clock import monotonic_s


class OwnLoop(asyncio.SelectorEventLoop):
    """See the top of this file."""

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        # Without epoll and kqueue, as where gevent has patched `select`, it has no descriptor.
        if hasattr(selector, "fileno"):
            keep_from_forks(selector)

    def time(self) -> float:
        """Seconds, from an arbitrary moment on."""
        return monotonic_s()
