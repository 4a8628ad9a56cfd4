"""AlterReplicaLogDirs (key 34), versions 1-2: moves replicas between log directories (KIP-113).

The response only says whether a move has begun; DescribeLogDirs shows its progress. A request for
the directory that a replica is already in cancels its move. A partition that is not on this broker
yet gets REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION, and is later created in that
directory. If a partition is named for two directories, the last one counts.

v2: flexible; nothing else changed
"""

from ...clients.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...clients.topic_partition import TopicPartition
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin or cancel the moves."""
    destinations = {
        TopicPartition(topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    outcome = broker.replica_manager.alter_replica_log_dirs(destinations)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, partition), error in outcome.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
