"""Which replica a consumer should read from (KIP-392, `RackAwareReplicaSelector`).

Only the leader chooses, for each fetch of a consumer:

    the leader is in the client's rack       -> the leader
    other candidates are in the client's rack -> the most caught-up of them
    else                                     -> the leader

Candidates are followers in the ISR whose log has the fetch offset, as far as the leader knows, and
whose broker is unfenced and has an endpoint on the client's listener (KAFKA-15390). A replica
outside of the ISR may stay behind for ever, and its readers with it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..partition.partition import BrokerOf, Partition


class ReplicaView(NamedTuple):
    """A follower as the leader sees it."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    last_caught_up_ms: int


def nearest_replica(
    rack: str, leader_rack: str | None, followers: Iterable[ReplicaView]
) -> int | None:
    """The follower to read from in this rack; None for the leader."""
    if not rack or leader_rack == rack:
        return None
    nearby = [
        (follower.log_end_offset, follower.last_caught_up_ms, follower.broker_id)
        for follower in followers
        if follower.rack == rack
    ]
    return max(nearby)[2] if nearby else None


class RackAwareSelection:
    """Chooses replicas by the racks of the cluster's brokers."""

    def __init__(self, broker_of: BrokerOf) -> None:
        self._broker_of = broker_of

    def select(
        self, partition: Partition, rack: str, listener: str, fetch_offset: int
    ) -> int | None:
        """The follower that a consumer should read from; None for this broker, which leads."""
        if not rack:
            return None
        views: list[ReplicaView] = []
        for broker_id in partition.isr_state.isr:
            follower = partition.follower(broker_id)
            if follower is None:
                continue
            if follower.log_start_offset <= fetch_offset <= follower.log_end_offset:
                views.append(
                    ReplicaView(
                        broker_id,
                        self._rack(broker_id, listener),
                        follower.log_end_offset,
                        follower.last_caught_up_ms,
                    )
                )
        return nearest_replica(rack, self._rack(partition.node_id, listener), views)

    def _rack(self, broker_id: int, listener: str) -> str | None:
        """Its rack; None if clients of that listener cannot reach it."""
        broker = self._broker_of(broker_id)
        if broker is None or broker.fenced or listener not in broker.endpoints:
            return None
        return broker.rack
