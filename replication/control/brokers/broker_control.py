"""Broker registration, fencing and shutdown, and their effect on partitions (KIP-631).

A broker registers with a new incarnation id and gets an epoch, the offset of the record that
registers it. It starts fenced and is unfenced once it has caught up with the log; a broker that is
its own controller is never behind.

A restarted broker may have lost records that it had not flushed, so each partition that it led gets
a new leader epoch even if it leads again: records written before the restart can't be mistaken for
those written at the same offsets after it (KIP-101, KIP-320).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ....clients.protocol.schema import Message
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterDelta, ClusterImage, ConfigResourceType, Endpoint
from ...metadata.metadata_records import (
    ELR_FEATURE,
    MIN_ISR_CONFIG,
    NO_LEADER,
    SUPPORTED_FEATURES,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from ..controller_config import Decision
from ..leadership.leader_and_isr import TOPIC_DEFAULTS, LostBroker, PartitionChanges, without_broker
from ..leadership.partition_change import PartitionTarget
from ..partition_control import is_online
from .broker_records import broker_endpoints, broker_features
from .registration import decide_unregistration

_FENCED, _UNFENCED = 1, -1
_IN_SHUTDOWN = 1

PRODUCER_ID_BLOCK_SIZE = 1_000
"""The number of producer ids in a block (`ProducerIdsBlock`)."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The data that a broker registers with when it starts."""

    broker_id: int
    incarnation_id: Uuid
    endpoints: Sequence[Endpoint]
    directories: Sequence[Uuid]
    rack: str | None = None


def bootstrap_records(levels: Mapping[str, int] = MappingProxyType({})) -> list[Message]:
    """The first records of a new cluster's log: the finalised features.

    A feature of which `levels` says nothing gets the highest; one at level 0 has no record.
    """
    finalised = {name: levels.get(name, best) for name, (_, best) in SUPPORTED_FEATURES.items()}
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in finalised.items()
        if level > 0
    ]


def first_records(formatted: Sequence[Message] | None, min_isr: str) -> Sequence[Message]:
    """The first records of a new cluster: its features as the directory was `formatted`.

    With eligible leader replicas, `min.insync.replicas` of the node's file becomes that of all
    brokers (`ActivationRecordsGenerator.recordsForEmptyLog`).
    """
    records = bootstrap_records() if formatted is None else formatted
    has_elr = any(
        isinstance(record, FeatureLevelRecord)
        and record.name == ELR_FEATURE
        and record.feature_level > 0
        for record in records
    )
    return [*records, min_isr_record("", min_isr)] if has_elr else records


def min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    """The record that sets or removes `min.insync.replicas` of a broker, or of all if empty."""
    return ConfigRecord(
        resource_type=ConfigResourceType.BROKER,
        resource_name=broker,
        name=MIN_ISR_CONFIG,
        value=value,
    )


def register_broker(
    image: ClusterImage,
    registration: BrokerRegistration,
    offset: int,
    defaults: LogConfig = TOPIC_DEFAULTS,
) -> Decision[int]:
    """Register and unfence a broker that has caught up; the answer is its epoch.

    `offset` is that of the first record. Raises KafkaError(INVALID_REGISTRATION) for a broker
    without an address.
    """
    if not registration.endpoints:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"Broker {registration.broker_id} has no listener for clients.",
        )
    registered = RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=offset,
        end_points=broker_endpoints(registration.endpoints),
        features=broker_features(SUPPORTED_FEATURES),
        rack=registration.rack,
        fenced=True,
        log_dirs=sorted(registration.directories),
    )
    unfenced = BrokerRegistrationChangeRecord(
        broker_id=registration.broker_id, broker_epoch=offset, fenced=_UNFENCED
    )
    delta = ClusterDelta(image)
    delta.replay_all([registered, unfenced])
    active = delta.apply(image.offset, image.epoch)
    changes = _restart_records(active, registration.broker_id, defaults)
    return Decision([registered, *changes, unfenced], offset)


def _restart_records(
    image: ClusterImage, broker_id: int, defaults: LogConfig
) -> list[PartitionChangeRecord]:
    """New leader epochs for partitions that the broker led, and leaderless ones that it can lead.

    A replica whose directory is missing after the restart loses its leadership.
    """
    changes = PartitionChanges(image, defaults)
    online = image.brokers[broker_id].directories
    records: list[PartitionChangeRecord] = []
    for topic in image.topics_by_name.values():
        for number, partition in topic.partitions.items():
            if not is_online(partition.directory(broker_id), online):
                isr = [replica for replica in partition.isr if replica != broker_id]
                target = PartitionTarget(isr=isr)
            elif partition.leader in (broker_id, NO_LEADER):
                target = PartitionTarget(renews_leader=partition.leader == broker_id)
            else:
                continue
            record = changes.change(topic, number, target)
            records += [] if record is None else [record]
    return records


def controlled_shutdown(
    image: ClusterImage, broker_id: int, defaults: LogConfig = TOPIC_DEFAULTS
) -> list[Message]:
    """The records of a controlled shutdown: the broker loses its leaderships and is fenced.

    It stays fenced until it registers again. Without a controlled shutdown, the controller waits
    for the broker's session to end before it lets a new incarnation register.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=_IN_SHUTDOWN
        ),
        *without_broker(image, LostBroker(broker_id), defaults),
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, fenced=_FENCED
        ),
    ]


def allocate_producer_ids(
    image: ClusterImage,
    broker_id: int,
    count: int = PRODUCER_ID_BLOCK_SIZE,
    used: Sequence[int] = (),
) -> Decision[int]:
    """Allocate the next `count` producer ids, none of them in `used`; the answer is the first."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered."
        )
    first = image.next_producer_id
    for producer_id in sorted(used):
        if first <= producer_id < first + count:
            first = producer_id + 1
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, next_producer_id=first + count
    )
    return Decision([record], first)


def unregister_broker(
    image: ClusterImage, own_id: int, broker_id: int, defaults: LogConfig = TOPIC_DEFAULTS
) -> Decision[None]:
    """Unregister a broker that will not come back, and remove it from every ISR.

    Raises KafkaError: BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST for the broker of this node,
    which would continue to serve partitions that it no longer leads according to the metadata.
    """
    if broker_id == own_id and broker_id in image.brokers:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running: shut it down instead."
        )
    # Nobody waits for it to come back: it is not an eligible leader either.
    lost = LostBroker(broker_id, is_unclean=True)
    return decide_unregistration(image, broker_id, lambda _: without_broker(image, lost, defaults))
