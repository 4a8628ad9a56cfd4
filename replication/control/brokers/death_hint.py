"""Notices early that the process of a broker has ended, and shortens its session.

Off by default (`tierlog.broker.death.hint`). It is only a hint: a heartbeat renews the session, and
correctness does not depend on sessions at all. There are two signs:

- The connection of the broker's heartbeats is closed. A process that dies, also by `kill -9`, has
  its connections closed by its system. A machine that loses power, or a process that only stands
  still, closes nothing: then its session expires as usual. A broker that has reconnected is not
  taken for dead when its old connection goes, and a live broker whose controller is slow to answer
  closes an old connection only when a new one is answered (`ControllerChannel`).
- The broker died in one process with the active controller. Nobody then has a connection of its
  heartbeats that could be lost, and the next controller gives it a full session. But the next
  controller talks to the other controllers itself: it has seen that one of them closed its
  connection and accepts none any longer. So it looks, until it has heard all brokers once.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ...metadata.cluster_image import BrokerImage
from ..controller_duties import Duty, loop_ms
from .sessions import BrokerIdAndEpoch, BrokerSessions

_log = logging.getLogger(__name__)

_LOOK_MS = 100
"""How often a new controller looks, until it has heard all brokers."""

EndedSince = Callable[[int], float | None]
"""Since when the process of a controller, by its id, has ended, in ms of the event loop's time.

None if it has not, for all that this node has seen, or if no other controller has that id."""


class HeartbeatConnection(Protocol):
    """A connection from which heartbeats come."""

    on_lost: Callable[[], None] | None
    """Called once when the connection is reset or closed."""


class DeathHint:
    """See the top of this file."""

    def __init__(
        self,
        sessions: BrokerSessions,
        is_expected: Callable[[BrokerIdAndEpoch], bool],
        ended_since: EndedSince,
        look_again: Callable[[], None],
        hasten: Callable[[Duty, float], None],
    ) -> None:
        """`is_expected`: whether heartbeats of a registration are still awaited here; `look_again`
        plans the next look for silent brokers; `hasten` brings a duty forward."""
        self._sessions = sessions
        self._is_expected = is_expected
        self._ended_since = ended_since
        self._look_again = look_again
        self._hasten = hasten
        # The last connection of each registration; one that is lost is forgotten.
        self._connections: dict[BrokerIdAndEpoch, HeartbeatConnection] = {}
        # The registrations whose heartbeats went to another controller before.
        self._unheard: dict[BrokerIdAndEpoch, None] = {}
        self.duty = Duty("look for brokers that ended with a controller", 60_000, self._look)

    def take_over(self, brokers: Iterable[BrokerImage]) -> None:
        """Begin with all unfenced brokers unheard, as a controller that has just become active."""
        self._unheard = {
            BrokerIdAndEpoch(broker.broker_id, broker.epoch): None
            for broker in brokers
            if not broker.fenced
        }
        self._hasten(self.duty, loop_ms() + _LOOK_MS)

    def heard(self, broker: BrokerIdAndEpoch, connection: HeartbeatConnection | None) -> None:
        """Note that a broker is alive, and over which connection it sent a heartbeat, if any."""
        self._unheard.pop(broker, None)
        if connection is not None and self._connections.get(broker) is not connection:
            self._connections[broker] = connection
            connection.on_lost = lambda: self._on_lost(connection)

    def _on_lost(self, connection: HeartbeatConnection) -> None:
        for broker in [each for each, last in self._connections.items() if last is connection]:
            del self._connections[broker]
            if self._is_expected(broker):
                _log.info(
                    "The connection of the heartbeats of broker %d was lost: its session is "
                    "shortened",
                    broker.broker_id,
                )
                self._shorten(broker, loop_ms())

    async def _look(self) -> bool:
        """Shorten the sessions of brokers that have ended together with another controller."""
        self._unheard = {broker: None for broker in self._unheard if self._is_expected(broker)}
        for broker in list(self._unheard):
            since_ms = self._ended_since(broker.broker_id)
            if since_ms is not None:
                del self._unheard[broker]
                _log.info(
                    "The process of controller and broker %d has ended: its session is shortened",
                    broker.broker_id,
                )
                self._shorten(broker, since_ms)
        if self._unheard:
            self._hasten(self.duty, loop_ms() + _LOOK_MS)
        return False

    def _shorten(self, broker: BrokerIdAndEpoch, since_ms: float) -> None:
        self._sessions.on_process_ended(broker, int(since_ms), int(loop_ms()))
        self._look_again()
