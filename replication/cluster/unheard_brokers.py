"""Brokers that a new active controller has not heard yet: one may have ended with its predecessor.

A process may be controller and broker at once. When it dies as the active controller, nobody has a
connection of its broker's heartbeats that could be lost, and the next controller gives that broker
a full session. But the next controller talks to the other controllers itself: it has seen that one
of them closed its connection and accepts none any longer, and a broker with the id of a controller
is in its process. Only for the death hint; a heartbeat renews the session, as it does any other.
"""

from collections.abc import Callable, Iterable

from ..brokers.sessions import BrokerIdAndEpoch
from ..metadata.cluster_image import BrokerImage

LOOK_MS = 100
"""How often a new controller looks, until it has heard all brokers."""

EndedSince = Callable[[int], float | None]
"""Since when the process of a controller, by its id, has ended, in ms of the event loop's time.

None if it has not, for all that this node has seen, or if no other controller has that id."""


class UnheardBrokers:
    """The registrations whose heartbeats went to another controller before."""

    def __init__(self, ended_since: EndedSince) -> None:
        self._ended_since = ended_since
        self._brokers: dict[BrokerIdAndEpoch, None] = {}

    def __bool__(self) -> bool:
        """Whether there is somebody left to hear."""
        return bool(self._brokers)

    def take_over(self, brokers: Iterable[BrokerImage]) -> None:
        """Begin with all unfenced brokers, as a controller that has just become active."""
        self._brokers = {
            BrokerIdAndEpoch(broker.broker_id, broker.epoch): None
            for broker in brokers
            if not broker.fenced
        }

    def heard(self, broker: BrokerIdAndEpoch) -> None:
        """A broker is alive."""
        self._brokers.pop(broker, None)

    def retain(self, is_expected: Callable[[BrokerIdAndEpoch], bool]) -> None:
        """Wait no longer for those that need no heartbeat: fenced or registered anew."""
        self._brokers = {broker: None for broker in self._brokers if is_expected(broker)}

    def ended(self) -> list[tuple[BrokerIdAndEpoch, int]]:
        """Those whose process has ended, each once, and since when it has in ms."""
        ended = [
            (broker, int(since_ms))
            for broker in self._brokers
            if (since_ms := self._ended_since(broker.broker_id)) is not None
        ]
        for broker, _ in ended:
            del self._brokers[broker]
        return ended
