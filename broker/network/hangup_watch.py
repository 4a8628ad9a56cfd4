"""Notices that clients disconnect while their sockets are not read.

While a response must wait, reading stops as soon as more bytes arrive, and the end of a stream is
seen only by reading up to it. The system can still report it, as `EPOLLRDHUP`. asyncio's loop does
not request that event, so an epoll object of our own does, which the loop watches.

On systems without epoll, such connections are closed when their idle time is up.
"""

import asyncio
from collections.abc import Callable

from ...clients.runtime.own_descriptors import keep_from_forks
from ...storage.system_calls import PEER_HUNG_UP, HangupPoll, hangup_poll

_EVENTS_AT_ONCE = 64


class HangupWatch:
    """Watches descriptors that are not being read; each has a callback for a hang-up."""

    def __init__(self) -> None:
        self._epoll: HangupPoll | None = None
        self._watched: dict[int, Callable[[], None]] = {}
        self._is_closed = hangup_poll is None

    def add(self, descriptor: int, on_hangup: Callable[[], None]) -> None:
        """Call `on_hangup` once, when the peer of this socket sends no more or disconnects."""
        if self._is_closed or hangup_poll is None:
            return
        if self._epoll is None:
            self._epoll = hangup_poll()
            keep_from_forks(self)
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)
        self._epoll.register(descriptor, PEER_HUNG_UP)
        self._watched[descriptor] = on_hangup

    def fileno(self) -> int:
        """The epoll object's descriptor; -1 if there is none."""
        return -1 if self._epoll is None else self._epoll.fileno()

    def remove(self, descriptor: int) -> None:
        """Stop watching this socket, before it is read again or closed."""
        if self._watched.pop(descriptor, None) is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)

    def _look(self) -> None:
        assert self._epoll is not None, "The loop calls this while the epoll is open."
        for descriptor, _ in self._epoll.poll(0, _EVENTS_AT_ONCE):
            on_hangup = self._watched.get(descriptor)
            if on_hangup is not None:
                self.remove(descriptor)
                on_hangup()

    def close(self) -> None:
        """Stop watching."""
        self._is_closed = True
        self._watched.clear()
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
