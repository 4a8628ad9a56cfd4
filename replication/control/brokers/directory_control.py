"""Records each replica's log directory, and handles failed directories (KIP-858).

A broker reports the directory of each new replica, and the new directory of each moved replica
before it is used. A replica whose directory has failed can neither lead nor be in sync; the last
in-sync replica becomes an eligible leader replica (KIP-966), so that it leads again when the
directory is back online (`ReplicationControlManager.handleAssignReplicasToDirs`,
`handleDirectoriesOffline`).
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ....clients.topic_partition import TopicIdPartition
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage
from ...metadata.metadata_records import BrokerRegistrationChangeRecord
from ..controller_config import Decision
from ..leadership.leader_and_isr import TOPIC_DEFAULTS, LostBroker, PartitionChanges, without_broker
from ..leadership.partition_change import PartitionTarget

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


def assign_replicas(
    image: ClusterImage,
    broker_id: int,
    directories: Mapping[TopicIdPartition, Uuid],
    defaults: LogConfig = TOPIC_DEFAULTS,
) -> Decision[None]:
    """Record the directories of a broker's replicas; skip those deleted or moved away.

    A partition without a leader may get one: the new directory may be online.
    """
    records: list[Message] = []
    changes = PartitionChanges(image, defaults)
    for named, directory in directories.items():
        topic = image.topics_by_id.get(named.topic_id)
        partition = None if topic is None else topic.partitions.get(named.partition)
        if topic is None or partition is None:
            continue
        if partition.directory(broker_id) in (directory, None):
            continue
        target = PartitionTarget(directories={broker_id: directory})
        record = changes.change(topic, named.partition, target)
        records += [] if record is None else [record]
    return Decision(records, None)


def directories_failed(
    image: ClusterImage,
    broker_id: int,
    failed: Collection[Uuid],
    defaults: LogConfig = TOPIC_DEFAULTS,
    limit: int | None = None,
) -> Decision[None]:
    """Remove all replicas in a broker's failed directories from leadership and ISR.

    `limit` is as in `without_broker`; the record of the directories comes last all the same.
    Raises KafkaError(BROKER_ID_NOT_REGISTERED).
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered."
        )
    if not set(failed) & set(broker.directories):
        return Decision([], None)
    lost = LostBroker(broker_id, directories=failed)
    records: list[Message] = [*without_broker(image, lost, defaults, limit)]
    records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            log_dirs=[directory for directory in broker.directories if directory not in failed],
        )
    )
    return Decision(records, None)
