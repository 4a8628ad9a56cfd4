"""Checks assignments and builds the records of new partitions.

Used to create topics and to add partitions to them (`ReplicationControlManager`).
"""

from collections.abc import Collection, Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ..metadata.cluster_image import BrokerImage, ClusterImage
from ..metadata.metadata_records import PartitionRecord

UNASSIGNED_DIRECTORY = Uuid(bytes(15) + b"\x01")
"""The broker chooses a log directory when it creates the replica (KIP-858)."""

LOST_DIRECTORY = Uuid(bytes(15) + b"\x02")
"""The replica's log directory is gone (`DirectoryId.LOST`)."""


def check_assignment(
    image: ClusterImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Check an assignment. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT).

    `replication_factor` is that of the partitions before this one, if there are any.
    """
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    ordered = sorted(replicas)
    for index, replica in enumerate(ordered):
        if replica not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {replica}, "
                "but no such broker is registered."
            )
        if index and ordered[index - 1] == replica:
            raise _invalid(
                f"The manual partition assignment includes the broker {replica} more than once."
            )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            "The manual partition assignment includes a partition with "
            f"{len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )


def new_partition(
    image: ClusterImage, topic_id: Uuid, partition: int, replicas: Sequence[int]
) -> PartitionRecord:
    """The record of a new partition: the active replicas are in sync, the first of them leads.

    Raises KafkaError(INVALID_REPLICA_ASSIGNMENT) when none of the replicas is active.
    """
    brokers: list[BrokerImage] = [image.brokers[replica] for replica in replicas]
    isr = [broker.broker_id for broker in brokers if broker.is_active]
    if not isr:
        raise _invalid(
            "All brokers specified in the manual partition assignment for partition "
            f"{partition} are fenced or in controlled shutdown."
        )
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_of(broker) for broker in brokers],
    )


def directory_of(broker: BrokerImage) -> Uuid:
    """The directory of a new replica: the broker's only one, or else unassigned."""
    directories = broker.directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def is_online(directory: Uuid | None, online: Collection[Uuid]) -> bool:
    """Whether a replica's directory is online; an unknown directory counts as online.

    A broker that has named no directories has them all (`DirectoryId.isOnline`).
    """
    if directory in (None, ZERO_UUID, UNASSIGNED_DIRECTORY):
        return True
    return directory in online or (not online and directory != LOST_DIRECTORY)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
