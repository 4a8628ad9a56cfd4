"""How far each broker has read the metadata log, as the active controller hears it (KIP-631).

This is soft state: nothing of it is in the log. A new controller hears the offsets of all brokers
within one heartbeat interval; until then nobody may stop, since a broker that was not heard counts
as having read nothing (`BrokerHeartbeatManager.lowestActiveOffset`).

The offset of a registration record is exact for those that are published one by one. A standby
that reads many records at once takes the last of them, which is never too low: a broker that has
read that far has also read its registration.
"""

from collections.abc import Iterable

from ...metadata.cluster_image import BrokerImage, ClusterDelta, ClusterImage
from .broker_states import lowest_active_offset
from .sessions import BrokerIdAndEpoch

NOTHING_READ = -1
"""The metadata offset of a broker that the controller has not heard of yet."""


class BrokerOffsets:
    """Offsets in the metadata log by registration; those of past registrations are dropped."""

    def __init__(self) -> None:
        self._registered: dict[BrokerIdAndEpoch, int] = {}
        self._read: dict[BrokerIdAndEpoch, int] = {}
        self._shutdown: dict[BrokerIdAndEpoch, int] = {}

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Note new registrations, and drop what belongs to those that are gone."""
        for broker_id, broker in delta.changed_brokers.items():
            before = delta.base.brokers.get(broker_id)
            if before is not None and (broker is None or broker.epoch != before.epoch):
                self._drop(id_and_epoch(before))
            if broker is not None and (before is None or broker.epoch != before.epoch):
                self._registered[id_and_epoch(broker)] = image.offset
            if broker is not None and broker.fenced:
                # A broker that is fenced does not stop in two steps any more.
                self._shutdown.pop(id_and_epoch(broker), None)

    def on_takeover(self) -> None:
        """Forget all offsets: earlier heartbeats went to another controller."""
        self._read.clear()
        self._shutdown.clear()

    def on_registered(self, broker: BrokerIdAndEpoch, offset: int) -> None:
        """Note the offset of a registration record, also of one that amends an older one."""
        self._registered[broker] = offset

    def on_heartbeat(self, broker: BrokerIdAndEpoch, offset: int) -> None:
        """Note how far a broker has read the log."""
        self._read[broker] = offset

    def on_shutdown(self, broker: BrokerIdAndEpoch, offset: int) -> None:
        """Note the last record of a controlled shutdown; a later one of the same broker counts."""
        self._shutdown[broker] = max(offset, self._shutdown.get(broker, offset))

    def registration_offset(self, broker: BrokerIdAndEpoch) -> int:
        """The offset of the record that registered the broker."""
        return self._registered.get(broker, broker.epoch)

    def shutdown_offset(self, broker: BrokerIdAndEpoch) -> int | None:
        """The offset that others must have read; None if this controller has not seen it begin."""
        return self._shutdown.get(broker)

    def lowest_active(self, brokers: Iterable[BrokerImage]) -> int:
        """How far all active brokers have read the log; the highest number if none is active."""
        return lowest_active_offset(
            self._read.get(id_and_epoch(broker), NOTHING_READ)
            for broker in brokers
            if broker.is_active
        )

    def _drop(self, broker: BrokerIdAndEpoch) -> None:
        for offsets in (self._registered, self._read, self._shutdown):
            offsets.pop(broker, None)


def id_and_epoch(broker: BrokerImage) -> BrokerIdAndEpoch:
    """The registration that an image has of a broker."""
    return BrokerIdAndEpoch(broker.broker_id, broker.epoch)
