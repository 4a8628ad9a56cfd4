"""The memory budget for unanswered requests, shared by all connections of a server.

A request that arrives in pieces needs a buffer, which grows as its bytes arrive. That buffer is
charged to the budget until the request has been answered; what is only announced costs nothing.

When half of the budget is in use, memory is short. Reads are short then, and the rest of a request
is read only once it is admitted: from then on all of its size is charged, so that it can be
finished. If there is no room, the request waits and is not read: its bytes stay in the socket and
with the client. The smallest is admitted first, so that a few large ones do not hold up many small
ones; one of a page waits for nobody, up to twice the budget. A client with none admitted may exceed
the budget if no one else does: one request can always be finished.

While others wait, clients that send too slowly are disconnected, those first that have held the
most for the longest (`_Pace`). A request that is processed in steps counts until that work has
ended, even if its client has disconnected.

Bytes read after a request that must wait count too. When all of the budget is in use, connections
with more bytes after a waiting request are closed; and so is a connection that must keep more of
these than one short read when usage exceeds the budget by a quarter. A client that has only begun a
request waits with what has arrived of it. It is closed at twice the budget; what the one request
that was admitted without room takes above the budget does not count.
"""

import asyncio
from itertools import islice
from typing import Protocol

from ...clients.protocol.connection import FIRST_BUFFER_BYTES, FrameBuffers
from .transport import SCRATCH_BYTES

SHORT_READ_BYTES = 16 * 1024
"""The size of one read while memory is short: most requests are smaller."""

_SMALL_BYTES = 64 * 1024
_SMALL_PART = 32
"""A request of up to 64 KiB, or a 32nd of the budget, is admitted up to a quarter above the budget.

So a request of a producer's default maximum size (1 MiB) need not wait for a very large one.
"""

_LOOK_S = 0.25
"""How often the progress of unfinished requests is checked while memory is short."""

_LOOKS_MAX = 20
"""A client that has been too slow at so many checks (5 s) is closed if any other waits."""

_LOOKS_MAX_FOR_SMALL = 2
"""It is closed at once, after so many checks, if a small request waits for longer than a check."""

_LOOK_AHEAD_S = 1.0
"""How often to check that clients with bytes after a waiting request are still connected."""

_LOOKED_AT = 16
"""How many of these clients are checked at once."""

LEAST_PROGRESS_BYTES = 64 * 1024 // _LOOKS_MAX
"""A client must send at least this much between two checks."""

_LEAST_PART = 240
"""And this part of what is charged to it: as much as it holds in a minute. Otherwise few clients
could hold all of the budget by sending a little now and then."""


class PartialRequest(Protocol):
    """How much of a request has arrived."""

    @property
    def unfinished_bytes(self) -> int:
        """The size of that request; 0 if none is unfinished."""
        ...

    @property
    def arrived_bytes(self) -> int:
        """The bytes of that request that have arrived."""
        ...

    @property
    def charged_bytes(self) -> int:
        """What it has charged to the budget."""
        ...

    @property
    def room_bytes(self) -> int:
        """How much the budget will be charged in addition when the request is admitted."""
        ...


class Arrival(Protocol):
    """A connection whose request has partly arrived."""

    @property
    def requests(self) -> PartialRequest:
        """That request."""
        ...

    def admitted(self) -> None:
        """Charge the rest of the request (`promise`), and read it: there is room now."""
        ...

    def close_for_memory(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class Parked(Protocol):
    """A connection with a request that waits, and more bytes after it."""

    def look_ahead(self) -> None:
        """Check whether its client is still connected."""
        ...

    def close_for_memory(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class _Pace:
    """How fast a client sends its request: `late` is at how many checks it was too slow.

    A client that sends more than the least makes up for earlier checks.
    """

    __slots__ = ("arrived", "late")

    def __init__(self, arrived: int) -> None:
        self.arrived = arrived
        self.late = 0

    def look(self, arrived: int, charged: int) -> None:
        """Note what has arrived by now."""
        least = max(LEAST_PROGRESS_BYTES, charged // _LEAST_PART)
        self.late = max(0, self.late + 1 - (arrived - self.arrived) // least)
        self.arrived = arrived

    def forgive(self, arrived: int) -> None:
        """The client cannot send now."""
        self.arrived, self.late = arrived, 0


class ReceiveBudget:
    """The budget of one server."""

    def __init__(
        self, max_bytes: int, buffers: FrameBuffers, read_bytes_max: int = SCRATCH_BYTES
    ) -> None:
        self.used = 0
        self._read_bytes_max = read_bytes_max
        self.read_bytes = read_bytes_max
        """The most that a connection may read at a time."""
        self.buffers = buffers
        """The buffers that its connections reuse for their frames."""
        self._max_bytes = max_bytes
        self.is_short: bool = False
        """Whether more than half of it is in use."""
        # The values are when they began to wait.
        self._waiting: dict[Arrival, float] = {}
        # Bytes of requests that have fully arrived and are being processed.
        self._held = 0
        # All with an unfinished request; None until they are looked at.
        self._begun: dict[Arrival, _Pace | None] = {}
        self.admitted: set[Arrival] = set()
        """All of the size of their requests is charged."""
        # The request that was admitted without room for it, and how much of it exceeds the budget.
        self._excess: dict[Arrival, int] = {}
        self._look: asyncio.TimerHandle | None = None
        self._parked: dict[Parked, None] = {}
        self._look_ahead: asyncio.TimerHandle | None = None

    def limit(self, max_bytes: int) -> None:
        """Change the size of the budget."""
        self._max_bytes = max_bytes
        self.charge(0)

    def may_keep(self, behind: int) -> bool:
        """Whether a connection may keep what it has just read, `behind` of it after a request.

        One that has only begun a request waits with what is there: others use up the memory.
        """
        most = self._hard_max if behind > SHORT_READ_BYTES else self._newcomers_max
        return self.used <= most

    @property
    def _hard_max(self) -> int:
        return self._max_bytes + self._max_bytes // 4

    @property
    def _newcomers_max(self) -> int:
        """What may be in use when a request begins: the one that exceeds the budget does not count.

        Otherwise a few large requests would close every client that comes after them.
        """
        return 2 * self._max_bytes + self._excess_bytes

    @property
    def _excess_bytes(self) -> int:
        """By how much the request that was admitted without room exceeds the budget."""
        return sum(self._excess.values())

    @property
    def waiting(self) -> int:
        """How many requests wait for room."""
        return len(self._waiting)

    def charge(self, nbytes: int) -> None:
        """Add `nbytes`, which may be negative, to the bytes in use; admits no waiting request."""
        self.used += nbytes
        is_short = self.used > self._max_bytes // 2
        if is_short is not self.is_short:
            self.is_short = self.buffers.is_short = is_short
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

    def begin(self, arrival: Arrival) -> None:
        """A request has partly arrived."""
        self._begun[arrival] = None

    def must_admit(self, more: int) -> bool:
        """Whether a request must be admitted before it may need `more` bytes."""
        return self.is_short or self.used + more > self._max_bytes // 2

    def admit(self, arrival: Arrival) -> bool:
        """Admit the request if there is room (True); else queue it, and call `admitted` later."""
        loop = asyncio.get_running_loop()
        if self._look is None:
            self._look = loop.call_later(_LOOK_S, self._look_at_all)
        if self._has_room(arrival):
            self.promise(arrival)
            return True
        self._waiting[arrival] = loop.time()
        return False

    def promise(self, arrival: Arrival) -> None:
        """Charge all of the request's size."""
        more = arrival.requests.room_bytes
        self.admitted.add(arrival)
        self.charge(more)
        if self.used > self._max_bytes and not self._is_small(arrival):
            # Not what newcomers hold: each large request would let more of them in.
            self._excess[arrival] = min(self.used - self._max_bytes, more)

    def _is_small(self, arrival: Arrival) -> bool:
        return arrival.requests.unfinished_bytes <= max(
            _SMALL_BYTES, self._max_bytes // _SMALL_PART
        )

    def _has_room(self, arrival: Arrival) -> bool:
        more = arrival.requests.room_bytes
        bound = self._max_bytes
        if self._is_small(arrival):
            # Small ones need not wait for the one that exceeds the budget, and may send slowly.
            bound = self._hard_max + self._excess_bytes
            if arrival.requests.unfinished_bytes <= FIRST_BUFFER_BYTES:
                # Such as a login: as much as a connection that has only begun a request may hold.
                bound = self._newcomers_max
        return more <= 0 or self.used + more <= bound or not (self.admitted or self._held)

    def finish(self, arrival: Arrival, nbytes: int) -> None:
        """Release `nbytes`: the request is finished, and nothing is kept."""
        self._begun.pop(arrival, None)
        self.admitted.discard(arrival)
        self._excess.pop(arrival, None)
        self.charge(-nbytes)
        if self._waiting:
            self.admit_waiting()

    def forget(self, arrival: Arrival) -> None:
        """Remove a connection whose request is finished, or will never be finished."""
        self._waiting.pop(arrival, None)
        self._begun.pop(arrival, None)
        self.admitted.discard(arrival)
        self._excess.pop(arrival, None)

    def admit_waiting(self) -> None:
        """Admit the waiting requests that fit now, the smallest first."""
        while self._waiting:
            smallest = min(self._waiting, key=lambda each: each.requests.unfinished_bytes)
            if not self._has_room(smallest):
                return
            del self._waiting[smallest]
            smallest.admitted()

    def _look_at_all(self) -> None:
        """Check who sends too slowly; also while nobody waits, so that nobody waits for long."""
        self._look = None
        if not (self._waiting or self.is_short):
            self._begun = dict.fromkeys(self._begun)
            return
        self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._look_at_all)
        for arrival, pace in self._begun.items():
            arrived = arrival.requests.arrived_bytes
            if pace is None:
                self._begun[arrival] = _Pace(arrived)
            elif arrival in self._waiting:
                pace.forgive(arrived)
            else:
                pace.look(arrived, arrival.requests.charged_bytes)
        self._make_room()

    def _make_room(self) -> None:
        """Close clients that send too slowly until nobody waits who is worth it."""
        self.admit_waiting()
        late = {arrival: pace.late for arrival, pace in self._begun.items() if pace and pace.late}
        for arrival in sorted(
            late, key=lambda each: each.requests.charged_bytes * late[each], reverse=True
        ):
            if not self._waiting:
                return
            # One that was admitted or closed meanwhile has changed.
            if arrival in self._begun and late[arrival] >= self._looks_max():
                size = arrival.requests.unfinished_bytes
                arrival.close_for_memory(
                    f"it sends a request of {size} bytes too slowly while others wait for memory"
                )
                self.admit_waiting()

    def _looks_max(self) -> int:
        """At how many checks a client may have been late, for the sake of those who wait."""
        before = asyncio.get_running_loop().time() - _LOOK_S
        is_urgent = any(
            since <= before and self._is_small(arrival) for arrival, since in self._waiting.items()
        )
        return _LOOKS_MAX_FOR_SMALL if is_urgent else _LOOKS_MAX

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
        for parked in list(islice(self._parked, _LOOKED_AT)):
            # Move it to the end of the queue, so that each gets its turn.
            del self._parked[parked]
            self._parked[parked] = None
            if self.used < self._max_bytes:
                parked.look_ahead()
            else:
                # Otherwise large requests find no room until these connections are closed as idle.
                parked.close_for_memory(
                    "memory is short, and it has sent more after a request that waits"
                )
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


class SlowReader(Protocol):
    """A connection whose peer does not read its responses."""

    def close_for_memory(self, reason: str, /) -> None:
        """Close the connection, and report why."""
        ...


class UnsentResponses:
    """The memory of responses that clients have not read yet, of all connections together.

    A connection handles no more requests until its client has read the earlier responses, but there
    are many connections. Above the bound, the connection with the most unsent bytes is closed; a
    single connection may exceed the bound. File regions are not in memory, and records from the
    tier have a bound of their own.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self._unsent: dict[SlowReader, int] = {}

    def note(self, connection: SlowReader, nbytes: int) -> None:
        """Set how many unsent bytes this connection has now."""
        self.held += nbytes - self._unsent.pop(connection, 0)
        if nbytes:
            self._unsent[connection] = nbytes
        while self.held > self.max_bytes and len(self._unsent) > 1:
            most = max(self._unsent, key=lambda each: self._unsent[each])
            self.held -= self._unsent[most]
            size = self._unsent.pop(most)
            most.close_for_memory(
                f"memory is short, and it has not read {size} bytes of its responses"
            )
