"""AlterReplicaLogDirs (key 34), versions 1-2: replicas move between directories (KIP-113).

The answer says whether a move has begun; DescribeLogDirs tells how far it is. Asking for the
directory that a replica is in calls its move off. A partition that is not here yet is answered
with REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION, and is made in that directory when it
comes. One that is named for two directories goes to the last. 2 is the first flexible version;
nothing else changed.
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
    """Begin the moves, or call them off."""
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
