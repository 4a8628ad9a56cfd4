"""Chooses the brokers of a new partition's replicas (`StripedReplicaPlacer`, KIP-36).

Replicas are spread over racks first and then over the brokers of a rack: racks take turns, and
inside a rack brokers take turns, each starting at a random position that advances with every
partition. A fenced broker gets replicas only when there are too few active ones, and never the
first replica, so that every partition has a leader from the start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....clients.errors import ErrorCode, KafkaError
from ...metadata.cluster_image import BrokerImage

if TYPE_CHECKING:
    from random import Random


def place_replicas(
    brokers: Mapping[int, BrokerImage], partitions: int, replication_factor: int, random: "Random"
) -> list[list[int]]:
    """The replicas of each partition, the preferred leader first.

    A broker in controlled shutdown gets none (Kafka's `UsableBrokerIterator`).

    Raises KafkaError(INVALID_REPLICATION_FACTOR) when there are too few brokers.
    """
    usable = [broker for broker in brokers.values() if broker.fenced or broker.is_active]
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    active = _racks((broker for broker in usable if not broker.fenced), random)
    fenced = _racks((broker for broker in usable if broker.fenced), random)
    if not active:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            "All brokers are currently fenced.",
        )
    start = random.randrange(len(usable))
    return [
        (_stripe(active, start + index) + _stripe(fenced, start + index))[:replication_factor]
        for index in range(partitions)
    ]


def _racks(brokers: Iterable[BrokerImage], random: "Random") -> list[list[int]]:
    """Broker ids by rack, with racks and brokers in random order."""
    racks: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    shuffled = list(racks.values())
    for rack in shuffled:
        random.shuffle(rack)
    random.shuffle(shuffled)
    return shuffled


def _stripe(racks: Sequence[Sequence[int]], start: int) -> list[int]:
    """All brokers, one from each rack in turn, starting with rack and broker `start`."""
    if not racks:
        return []
    first_rack = start % len(racks)
    ordered = [*racks[first_rack:], *racks[:first_rack]]
    # The brokers of a rack rotate once every rack has been first.
    turn = start // len(racks)
    longest = max(map(len, ordered))
    return [
        rack[(turn + position) % len(rack)]
        for position in range(longest)
        for rack in ordered
        if position < len(rack)
    ]
