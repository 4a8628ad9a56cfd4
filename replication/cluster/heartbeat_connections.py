"""Over which connection each broker sends its heartbeats, to notice that its process has ended.

A process that dies, also by `kill -9`, has its connections closed by its system. A machine that
loses power, or a process that only stands still, closes nothing: then its session expires as usual.
A broker that has connected anew is not taken for dead when its old connection goes.
"""

from collections.abc import Callable
from typing import Protocol

from ..brokers.sessions import BrokerIdAndEpoch


class HeartbeatConnection(Protocol):
    """A connection from which heartbeats come."""

    on_lost: Callable[[], None] | None
    """Called once when the connection is reset or closed."""


class HeartbeatConnections:
    """The last connection of each registration; one that is lost is forgotten."""

    def __init__(self, on_lost: Callable[[BrokerIdAndEpoch], None]) -> None:
        """`on_lost` is called with a broker whose last connection is lost."""
        self._on_lost = on_lost
        self._connections: dict[BrokerIdAndEpoch, HeartbeatConnection] = {}

    def heard(self, broker: BrokerIdAndEpoch, connection: HeartbeatConnection) -> None:
        """Note that a broker sent a heartbeat over this connection."""
        if self._connections.get(broker) is connection:
            return
        self._connections[broker] = connection
        connection.on_lost = lambda: self._lost(connection)

    def _lost(self, connection: HeartbeatConnection) -> None:
        brokers = [each for each, last in self._connections.items() if last is connection]
        for broker in brokers:
            del self._connections[broker]
            self._on_lost(broker)
