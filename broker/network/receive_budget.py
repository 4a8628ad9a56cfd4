"""The memory budget for unanswered requests, shared by all connections of a server.

A request that arrives in pieces needs a buffer of its size. Only its first piece is read before it
is admitted; then its size is charged to the budget until it has been answered. If there is no room,
the request waits and is not read: its bytes stay in the socket and with the client. The smallest
waiting request is admitted first, so that a few large ones do not hold up many small ones.

The budget is never smaller than the largest request, so that one request can always be finished. A
client that was admitted and then sends almost nothing while others wait is disconnected. A request
that is processed in steps counts until that work has ended, even if its client has disconnected.

Bytes read after a request that must wait count too. When half of the budget is in use, reads are
short. When all of it is in use, connections with more bytes after a waiting request are closed;
and so is a connection that must keep bytes when usage exceeds the budget by a quarter.
"""

import asyncio
from itertools import islice
from typing import Protocol

from ...clients.protocol.connection import FrameBuffers
from .transport import SCRATCH_BYTES

SHORT_READ_BYTES = 16 * 1024
"""The size of one read while memory is short: most requests are smaller."""

_SMALL_BYTES = 64 * 1024
_SMALL_PART = 32
"""A request of up to 64 KiB, or a 32nd of the budget, is admitted up to a quarter above the budget.

So a request of a producer's default maximum size (1 MiB) need not wait for a very large one.
"""

_LOOK_S = 5.0
"""How often the progress of admitted requests is checked while others wait."""

_LOOK_AHEAD_S = 1.0
"""How often to check that clients with bytes after a waiting request are still connected."""

_LOOKED_AT = 16
"""How many of these clients are checked at once."""

_LEAST_PROGRESS_BYTES = 64 * 1024
"""An admitted client must send at least this much between two checks."""


class Arrival(Protocol):
    """A connection whose request has partly arrived."""

    @property
    def unfinished_bytes(self) -> int:
        """The size of that request; 0 if none is unfinished."""
        ...

    @property
    def arrived_bytes(self) -> int:
        """The bytes of that request that have arrived."""
        ...

    def admitted(self) -> None:
        """Read the rest of the request: there is room now."""
        ...

    def shed(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class Parked(Protocol):
    """A connection with a request that waits, and more bytes after it."""

    def look_ahead(self) -> None:
        """Check whether its client is still connected."""
        ...

    def shed(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class ReceiveBudget:
    """The budget of one server."""

    def __init__(
        self, max_bytes: int, buffers: FrameBuffers, read_bytes_max: int = SCRATCH_BYTES
    ) -> None:
        self.used = 0
        self._read_bytes_max = read_bytes_max
        self.read_bytes = read_bytes_max
        """The most that a connection may read at a time."""
        self._buffers = buffers
        self._max_bytes = max_bytes
        self._is_short: bool = False
        self._waiting: dict[Arrival, None] = {}
        # Bytes of requests that have fully arrived and are being processed.
        self._held = 0
        # The values are the bytes that had arrived at the last check; -1 before the first check.
        self._admitted: dict[Arrival, int] = {}
        self._look: asyncio.TimerHandle | None = None
        self._parked: dict[Parked, None] = {}
        self._look_ahead: asyncio.TimerHandle | None = None

    def limit(self, max_bytes: int) -> None:
        """Change the size of the budget."""
        self._max_bytes = max_bytes
        self.charge(0)

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more may be kept."""
        return self.used > self._hard_max

    @property
    def _hard_max(self) -> int:
        return self._max_bytes + self._max_bytes // 4

    @property
    def waiting(self) -> int:
        """How many requests wait for room."""
        return len(self._waiting)

    def charge(self, nbytes: int) -> None:
        """Add `nbytes`, which may be negative, to the bytes in use; admits no waiting request."""
        self.used += nbytes
        is_short = self.used > self._max_bytes // 2
        if is_short is not self._is_short:
            self._is_short = self._buffers.is_short = is_short
            self.read_bytes = SHORT_READ_BYTES if is_short else self._read_bytes_max

    def hold(self, nbytes: int, until: "asyncio.Future[object]") -> None:
        """Charge a request that has fully arrived until its processing has ended."""
        self._held += nbytes
        self.charge(nbytes)

        def release(_: "asyncio.Future[object]") -> None:
            self._held -= nbytes
            self.charge(-nbytes)
            # Not at once: the same request may need more processing.
            asyncio.get_running_loop().call_soon(self.admit_waiting)

        until.add_done_callback(release)

    def admit_at_once(self, arrival: Arrival, size: int) -> bool:
        """Admit a request with nothing charged yet, if there is room for all of it."""
        if self.used + size > self._max_bytes:
            return False
        self._admitted[arrival] = -1
        self.charge(size)
        return True

    def admit(self, arrival: Arrival, has_bytes: int) -> bool:
        """Admit the request if there is room; otherwise queue it, and call `admitted` later.

        Returns whether it is admitted now. `has_bytes` of it are charged already; admission charges
        the rest.
        """
        size = arrival.unfinished_bytes
        if self._has_room(size - has_bytes, size):
            self._admitted[arrival] = -1
            if size != has_bytes:
                self.charge(size - has_bytes)
            return True
        self._waiting[arrival] = None
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._shed_stalled)
        return False

    def _has_room(self, more: int, size: int) -> bool:
        is_small = size <= max(_SMALL_BYTES, self._max_bytes // _SMALL_PART)
        bound = self._hard_max if is_small else self._max_bytes
        return self.used + more <= bound or not (self._admitted or self._held)

    def finish(self, arrival: Arrival, nbytes: int) -> None:
        """Release `nbytes`: the request is finished, and nothing is kept."""
        self._admitted.pop(arrival, None)
        self.charge(-nbytes)
        if self._waiting:
            self.admit_waiting()

    def forget(self, arrival: Arrival) -> None:
        """Remove a connection whose request is finished, or will never be finished."""
        self._waiting.pop(arrival, None)
        self._admitted.pop(arrival, None)

    def admit_waiting(self) -> None:
        """Admit the waiting requests that fit now, the smallest first."""
        while self._waiting:
            smallest = min(self._waiting, key=lambda each: each.unfinished_bytes)
            size = smallest.unfinished_bytes
            if not self._has_room(size, size):
                return
            del self._waiting[smallest]
            smallest.admitted()

    def _shed_stalled(self) -> None:
        self._look = None
        if not self._waiting:
            self._admitted = dict.fromkeys(self._admitted, -1)
            return
        self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._shed_stalled)
        for each, before in list(self._admitted.items()):
            arrived = each.arrived_bytes
            if 0 <= before <= arrived < before + _LEAST_PROGRESS_BYTES:
                each.shed(
                    f"it sends a request of {each.unfinished_bytes} bytes too slowly while "
                    "others wait for memory"
                )
            elif each in self._admitted:
                self._admitted[each] = arrived
        self.admit_waiting()

    def watch(self, connection: Parked) -> None:
        """From time to time, look ahead on the connection, or shed it if no memory is left."""
        self._parked[connection] = None
        if self._look_ahead is None:
            self._look_ahead_later(_LOOK_AHEAD_S)

    def unwatch(self, connection: Parked) -> None:
        """Stop watching a connection: its request no longer waits."""
        self._parked.pop(connection, None)

    def _look_ahead_later(self, seconds: float) -> None:
        self._look_ahead = asyncio.get_running_loop().call_later(seconds, self._look_around)

    def _look_around(self) -> None:
        self._look_ahead = None
        # A few at a time: there may be thousands, and the bytes of each are copied.
        for each in list(islice(self._parked, _LOOKED_AT)):
            # Move it to the end of the queue, so that each gets its turn.
            del self._parked[each]
            self._parked[each] = None
            if self.used < self._max_bytes:
                each.look_ahead()
            else:
                # Otherwise large requests find no room until these connections are closed as idle.
                each.shed("memory is short, and it has sent more after a request that waits")
        if self._parked:
            self._look_ahead_later(
                min(_LOOK_AHEAD_S, max(_LOOK_AHEAD_S * _LOOKED_AT / len(self._parked), 0.01))
            )

    def stop(self) -> None:
        """Stop watching."""
        for timer in (self._look, self._look_ahead):
            if timer is not None:
                timer.cancel()
        self._look = self._look_ahead = None
        self._parked.clear()


class Debtor(Protocol):
    """A connection whose peer does not read its responses."""

    def shed(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class UnsentAnswers:
    """The memory of responses that clients have not read yet, of all connections together.

    A connection handles no more requests until its client has read the earlier responses, but there
    are many connections. Above the bound, the connection with the most unsent bytes is closed; a
    single connection may exceed the bound. File regions are not in memory, and records from the
    tier have a bound of their own.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self._owed: dict[Debtor, int] = {}

    def owe(self, connection: Debtor, nbytes: int) -> None:
        """Set how many unsent bytes this connection has now."""
        self.held += nbytes - self._owed.pop(connection, 0)
        if nbytes:
            self._owed[connection] = nbytes
        while self.held > self.max_bytes and len(self._owed) > 1:
            most = max(self._owed, key=lambda each: self._owed[each])
            self.held -= self._owed[most]
            size = self._owed.pop(most)
            most.shed(f"memory is short, and it has not read {size} bytes of its responses")
