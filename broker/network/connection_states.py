"""The states of a connection, and every legal transition.

READY --defer--> WAITING --answer--> READY
READY --block--> BLOCKED --drain---> READY
READY --yield--> QUEUED  --turn----> READY
READY --starve-> STARVED --admit---> READY
any   --lose---> CLOSED
"""

from enum import Enum


class ConnectionState(Enum):
    """What the connection is doing."""

    READY = "ready"
    WAITING = "waiting"
    BLOCKED = "blocked"
    QUEUED = "queued"
    STARVED = "starved"
    CLOSED = "closed"


class ConnectionEvent(Enum):
    """What can happen to a connection."""

    DEFER = "the response is deferred"
    ANSWER = "the deferred response is ready"
    BLOCK = "the peer did not read the whole response"
    DRAIN = "the peer read the rest"
    YIELD = "its turn ended before its requests were handled"
    TURN = "its next turn began"
    STARVE = "there is no memory for the rest of its request"
    ADMIT = "memory is available again"
    LOSE = "the connection is lost"


_S, _E = ConnectionState, ConnectionEvent

TRANSITIONS: dict[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_S.READY, _E.DEFER): _S.WAITING,
    (_S.WAITING, _E.ANSWER): _S.READY,
    (_S.READY, _E.BLOCK): _S.BLOCKED,
    (_S.BLOCKED, _E.DRAIN): _S.READY,
    (_S.READY, _E.YIELD): _S.QUEUED,
    (_S.QUEUED, _E.TURN): _S.READY,
    (_S.READY, _E.STARVE): _S.STARVED,
    (_S.STARVED, _E.ADMIT): _S.READY,
    (_S.READY, _E.LOSE): _S.CLOSED,
    (_S.WAITING, _E.LOSE): _S.CLOSED,
    (_S.BLOCKED, _E.LOSE): _S.CLOSED,
    (_S.QUEUED, _E.LOSE): _S.CLOSED,
    (_S.STARVED, _E.LOSE): _S.CLOSED,
}
"""Every legal transition; any other is a bug."""
