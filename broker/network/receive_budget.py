"""How much of requests may stand in memory that are not answered yet, of all connections together.

A request that arrives in pieces needs a buffer of its size. Before more of it is read than came
first, it is admitted: its size is taken from the budget, until it has been answered. What finds no
room waits and is not read: its bytes stay with the system, and with the client. Of those who wait
the smallest is admitted first, so that few large requests do not hold up many small ones.

The budget is never smaller than the largest request, so that one can always be finished. Whoever
has been admitted and then sends next to nothing, while others wait, loses the connection. A request
that is worked on in steps counts until that work has ended, also when its client has gone.

What was read behind a request that must wait is counted too. When half of the budget is in use,
little is read at a time; when all of it is, connections are closed behind whose waiting requests
more lies, and so is whoever must keep something beyond a quarter more than the budget.
"""

import asyncio
from itertools import islice
from typing import Protocol

from ...clients.protocol.connection import FrameBuffers
from .transport import SCRATCH_BYTES

_SHORT_READ_BYTES = 16 * 1024
"""What is read at a time where memory is short: most requests are smaller."""

_SMALL_BYTES = 64 * 1024
_SMALL_PART = 32
"""A request of up to this size, or this part of the budget, is admitted beyond it.

Up to the quarter above it: what clients send by default (1 MiB) does not wait for the largest.
"""

_LOOK_S = 5.0
"""How often those who were admitted are looked at while others wait."""

_LOOK_AHEAD_S = 1.0
"""How often it is seen whether those are still there behind whose waiting requests more lies."""

_LOOKED_AT = 16
"""How many of them at once."""

_LEAST_PROGRESS_BYTES = 64 * 1024
"""What they must have sent meanwhile."""


class Arrival(Protocol):
    """A connection whose request has begun to arrive."""

    @property
    def unfinished_bytes(self) -> int:
        """The size of that request; 0 where none is unfinished."""
        ...

    @property
    def arrived_bytes(self) -> int:
        """What has arrived of it."""
        ...

    def admitted(self) -> None:
        """There is room now: read on."""
        ...

    def shed(self, reason: str, /) -> None:
        """End the connection, and say why."""
        ...


class Parked(Protocol):
    """A connection with a request that waits, and more behind it."""

    def look_ahead(self) -> None:
        """See whether its client is still there."""
        ...

    def shed(self, reason: str, /) -> None:
        """End the connection, and say why."""
        ...


class ReceiveBudget:
    """The budget of one server."""

    def __init__(self, max_bytes: int, buffers: FrameBuffers) -> None:
        self.used = 0
        self.read_bytes = SCRATCH_BYTES
        """What a connection may read at a time."""
        self._buffers = buffers
        self._max_bytes = max_bytes
        self._is_short: bool = False
        self._waiting: dict[Arrival, None] = {}
        # Of requests that have arrived and are worked on.
        self._held = 0
        # With what had arrived when they were looked at; -1: not yet.
        self._admitted: dict[Arrival, int] = {}
        self._look: asyncio.TimerHandle | None = None
        self._parked: dict[Parked, None] = {}
        self._look_ahead: asyncio.TimerHandle | None = None

    def limit(self, max_bytes: int) -> None:
        """Let this be the bound from now on."""
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
        """Count so many bytes more, or fewer; those who wait may be admitted then."""
        self.used += nbytes
        is_short = self.used > self._max_bytes // 2
        if is_short is not self._is_short:
            self._is_short = self._buffers.is_short = is_short
            self.read_bytes = _SHORT_READ_BYTES if is_short else SCRATCH_BYTES

    def hold(self, nbytes: int, until: "asyncio.Future[object]") -> None:
        """Count a request that has arrived while it is worked on."""
        self._held += nbytes
        self.charge(nbytes)

        def release(_: "asyncio.Future[object]") -> None:
            self._held -= nbytes
            self.charge(-nbytes)
            # Not at once: the same request may be worked on further.
            asyncio.get_running_loop().call_soon(self.admit_waiting)

        until.add_done_callback(release)

    def admit_at_once(self, arrival: Arrival, size: int) -> bool:
        """Admit a request of which nothing is charged, if there is room for all of it."""
        if self.used + size > self._max_bytes:
            return False
        self._admitted[arrival] = -1
        self.charge(size)
        return True

    def admit(self, arrival: Arrival, has_bytes: int) -> bool:
        """Whether its request may be read to the end; if not now, `admitted` is called later.

        `has_bytes` of it are charged already, and the rest is if it may.
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
        """Its request is finished, and nothing is kept: so much is free again."""
        self._admitted.pop(arrival, None)
        self.charge(-nbytes)
        if self._waiting:
            self.admit_waiting()

    def forget(self, arrival: Arrival) -> None:
        """Its request is finished, or will not be."""
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
                    f"it holds room for a request of {each.unfinished_bytes} bytes and sends too "
                    "little of it while others wait"
                )
            elif each in self._admitted:
                self._admitted[each] = arrived
        self.admit_waiting()

    def watch(self, connection: Parked) -> None:
        """Have it look ahead now and then, as far as there is room."""
        self._parked[connection] = None
        if self._look_ahead is None:
            self._look_ahead_later(_LOOK_AHEAD_S)

    def unwatch(self, connection: Parked) -> None:
        """Its request waits no more."""
        self._parked.pop(connection, None)

    def _look_ahead_later(self, seconds: float) -> None:
        self._look_ahead = asyncio.get_running_loop().call_later(seconds, self._look_around)

    def _look_around(self) -> None:
        self._look_ahead = None
        # A few at a time, for there may be thousands, and what each has is copied.
        for each in list(islice(self._parked, _LOOKED_AT)):
            # To the end of the line: each gets its turn.
            del self._parked[each]
            self._parked[each] = None
            if self.used < self._max_bytes:
                each.look_ahead()
            else:
                # Or nobody's large request would find room before these are silent for too long.
                each.shed("it has sent more behind a request that waits, and memory is short")
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
    """A connection whose peer does not take its answers."""

    def shed(self, reason: str, /) -> None:
        """End the connection, and say why."""
        ...


class UnsentAnswers:
    """The answers that wait in memory for their clients, of all connections together.

    A connection is asked nothing more before its client has taken what it has asked for, but there
    are many connections. Beyond the bound the one that owes most to its client is closed; one may
    always be owed as much as its answer is large. Regions of files are not in memory, and records
    from the tier have a bound of their own.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self._owed: dict[Debtor, int] = {}

    def owe(self, connection: Debtor, nbytes: int) -> None:
        """So many bytes of this connection wait now; 0: none do."""
        self.held += nbytes - self._owed.pop(connection, 0)
        if nbytes:
            self._owed[connection] = nbytes
        while self.held > self.max_bytes and len(self._owed) > 1:
            most = max(self._owed, key=lambda each: self._owed[each])
            self.held -= self._owed[most]
            size = self._owed.pop(most)
            most.shed(f"it has not taken {size} bytes of its answers, and memory is short")
