"""Records each replica's log directory, and handles failed directories (KIP-858).

A broker reports the directory of each new replica, and the new directory of each moved replica
before it is used. A replica whose directory has failed can neither lead nor be in sync; the last
in-sync replica becomes an eligible leader replica (KIP-966), so that it leads again when the
directory is back online (`ReplicationControlManager.handleAssignReplicasToDirs`,
`handleDirectoriesOffline`).
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...clients.topic_partition import TopicIdPartition
from ..metadata.cluster_image import ClusterImage, PartitionImage
from ..metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from .controller_config import Decision
from .partition_control import UNASSIGNED_DIRECTORY

if TYPE_CHECKING:
    from ...clients.protocol.schema import Message

_ELR_FEATURE = "eligible.leader.replicas.version"


def assign_replicas(
    image: ClusterImage, broker_id: int, directories: Mapping[TopicIdPartition, Uuid]
) -> Decision[None]:
    """Record the directories of a broker's replicas; skip those deleted or moved away."""
    records: list[Message] = []
    for named, directory in directories.items():
        topic = image.topics_by_id.get(named.topic_id)
        partition = None if topic is None else topic.partitions.get(named.partition)
        if partition is None or partition.directory(broker_id) in (directory, None):
            continue
        record = PartitionChangeRecord(
            partition_id=named.partition,
            topic_id=named.topic_id,
            directories=[
                directory if replica == broker_id else partition.directory(replica) or ZERO_UUID
                for replica in partition.replicas
            ],
        )
        if partition.leader == NO_LEADER and directory in image.brokers[broker_id].directories:
            elect(record, partition, broker_id)
        records.append(record)
    return Decision(records, None)


def is_online(directory: Uuid | None, online: Collection[Uuid]) -> bool:
    """Whether a replica's directory is online; an unknown directory counts as online."""
    return directory in (None, ZERO_UUID, UNASSIGNED_DIRECTORY) or directory in online


def elect(record: PartitionChangeRecord, partition: PartitionImage, broker_id: int) -> None:
    """Make a replica leader if it has all committed records; it joins the ISR if that is empty.

    Apache Kafka leaves the ISR empty when the last broker stops, and keeps its last members
    separately as the eligible leader replicas (KIP-966).
    """
    if broker_id in (partition.isr or partition.elr):
        record.leader = broker_id
        if not partition.isr:
            record.isr = [broker_id]
            record.eligible_leader_replicas = []
            record.last_known_elr = []


def directories_failed(
    image: ClusterImage, broker_id: int, failed: Collection[Uuid]
) -> Decision[None]:
    """Remove all replicas in a broker's failed directories from leadership and ISR.

    Raises KafkaError(BROKER_ID_NOT_REGISTERED).
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered."
        )
    if not set(failed) & set(broker.directories):
        return Decision([], None)
    records: list[Message] = []
    for topic in image.topics_by_name.values():
        for number, partition in topic.partitions.items():
            if partition.directory(broker_id) in failed:
                record = without_replica(image, partition, broker_id)
                if record is not None:
                    record.partition_id, record.topic_id = number, topic.topic_id
                    records.append(record)
    records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            log_dirs=[each for each in broker.directories if each not in failed],
        )
    )
    return Decision(records, None)


def without_replica(
    image: ClusterImage, partition: PartitionImage, broker_id: int
) -> PartitionChangeRecord | None:
    """The change of a partition when a replica drops out; None if nothing changes.

    The last in-sync replica has all committed records. If the cluster supports eligible leader
    replicas it becomes one, otherwise it stays in the ISR; either way the partition has no leader.
    """
    isr = [each for each in partition.isr if each != broker_id]
    record = PartitionChangeRecord()
    if broker_id in partition.isr and (isr or image.features.get(_ELR_FEATURE, 0) > 0):
        record.isr = isr
        if not isr:
            record.eligible_leader_replicas = [*partition.elr, broker_id]
            record.last_known_elr = [broker_id]
    if partition.leader == broker_id:
        record.leader = isr[0] if isr else NO_LEADER
    return record if record.isr is not None or partition.leader == broker_id else None
