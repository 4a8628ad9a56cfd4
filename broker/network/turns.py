"""Turns of the event loop: a connection with many requests at once lets the others have theirs.

Kafka takes one request of a connection at a time, on threads of which there are several. Here all
connections share one loop, and what arrives in one read may be twenty thousand requests: so each
call answers requests for a bounded time, and the connection that has more joins the line. The line
is dealt with once in each round of the loop, for a bounded time as well; between two rounds
everyone is served who has sent something new.
"""

import asyncio
from collections import deque
from typing import Protocol

REQUESTS_A_TURN = 500
"""Also where a clock stands still: in a simulation, or for requests that cost next to nothing."""

_ROUND_S = 0.005
"""What all in the line get together in one round of the loop, and so do all that have been read.
Whoever has been read later in it is answered one request, and joins the line with the others."""

_SHORT_TURN_S = 0.0005
"""What each gets at least. Who has been read while others stand in line gets no more than that:
whoever has sent a few requests at once need not join them."""


class TurnTaker(Protocol):
    """A connection, as the line sees it."""

    def take_turn(self, deadline: float, /) -> None:
        """Go on until the deadline; whoever is not done then joins the line again."""
        ...


class Turns:
    """The line of one server's connections that have requests left."""

    def __init__(self) -> None:
        self._line: deque[TurnTaker] = deque()
        self._is_due = False
        # What those had who have been read since a round was last seen to end.
        self._spent = 0.0
        self._ends_round = False
        # Since when the one has its turn who has been read last; 0 when that is over.
        self._began = 0.0

    def __len__(self) -> int:
        return len(self._line)

    def deadline(self, now: float) -> float:
        """Until when a connection that has just been read may answer requests; then `over`."""
        self.over(now)
        self._began = now
        left = _ROUND_S - self._spent
        return now + (min(_SHORT_TURN_S, left) if self._line else left)

    def over(self, now: float) -> None:
        """It has answered them, or as many as it may."""
        if not self._began:
            return
        self._spent += now - self._began
        self._began = 0.0
        if self._spent > _SHORT_TURN_S and not self._ends_round:
            # Only now: a callback costs a look at all sockets, and most reads are short.
            self._ends_round = True
            asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self._spent = self._began = 0.0
        self._ends_round = False

    def join(self, connection: TurnTaker) -> None:
        """Have `take_turn` called when it is this connection's turn."""
        self._line.append(connection)
        self._be_due()

    def _be_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        self._is_due = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        end = now + _ROUND_S
        # Few of them get more of it each: every turn ends with a system call or two.
        turn = max(_SHORT_TURN_S, _ROUND_S / max(1, len(self._line)))
        # Each at most once: a clock that stands still must not keep the loop here.
        try:
            for _ in range(len(self._line)):
                self._line.popleft().take_turn(now + turn)
                now = loop.time()
                if now >= end:
                    break
        finally:
            # Also after an unexpected failure, which must not affect other connections.
            if self._line:
                self._be_due()
