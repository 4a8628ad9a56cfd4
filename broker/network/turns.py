"""Turns on the event loop, so that a connection with many requests does not delay the others.

Kafka handles one request of a connection at a time, on several threads. Here all connections share
one event loop, and one read may bring twenty thousand requests: so each call handles requests for a
bounded time, and a connection with more of them joins a queue. The queue is served once in each
round of the loop, also for a bounded time; between two rounds, connections with new bytes are
served.
"""

import asyncio
from collections import deque
from typing import Protocol

REQUESTS_A_TURN = 500
"""Bounds a turn where time does not: in a simulation, or for requests that cost almost nothing."""

_ROUND_S = 0.005
"""The time per round of the loop for all queued connections together, and the same for all newly
read ones. When it is used up, a newly read connection handles one request, and joins the queue."""

_SHORT_TURN_S = 0.0005
"""The least time for a queued connection. While others are queued, a newly read connection gets
only this time: enough for a few requests, so that it need not join the queue for them."""


class TurnTaker(Protocol):
    """A connection that can be queued."""

    def take_turn(self, deadline: float, /) -> None:
        """Handle requests until the deadline, and join the queue again if there are more."""
        ...


class Turns:
    """The queue of one server's connections that have requests left."""

    def __init__(self) -> None:
        self._line: deque[TurnTaker] = deque()
        self._is_due = False
        # The time that newly read connections have used in this round.
        self._spent = 0.0
        self._ends_round = False
        # When the turn of the newly read connection began; 0 if it is over.
        self._began = 0.0

    def __len__(self) -> int:
        return len(self._line)

    def deadline(self, now: float) -> float:
        """Begin the turn of a newly read connection; returns when it ends. Call `over` after it."""
        self.over(now)
        self._began = now
        left = _ROUND_S - self._spent
        return now + (min(_SHORT_TURN_S, left) if self._line else left)

    def over(self, now: float) -> None:
        """End the turn of the newly read connection."""
        if not self._began:
            return
        self._spent += now - self._began
        self._began = 0.0
        if self._spent > _SHORT_TURN_S and not self._ends_round:
            # Not after short turns, the usual case: a callback makes the loop poll all sockets.
            self._ends_round = True
            asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        self._spent = self._began = 0.0
        self._ends_round = False

    def join(self, connection: TurnTaker) -> None:
        """Queue the connection; `take_turn` is called when it is its turn."""
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
        # The fewer are queued, the longer the turns: each ends with a system call or two.
        turn = max(_SHORT_TURN_S, _ROUND_S / max(1, len(self._line)))
        # Each at most once, so that this ends even if the clock does not advance.
        try:
            for _ in range(len(self._line)):
                self._line.popleft().take_turn(now + turn)
                now = loop.time()
                if now >= end:
                    break
        finally:
            # Also after an unexpected error, which must not affect other connections.
            if self._line:
                self._be_due()
