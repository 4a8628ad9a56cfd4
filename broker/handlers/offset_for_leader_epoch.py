"""OffsetForLeaderEpoch (key 23), versions 2-4: the end of a leader epoch (KIP-101, KIP-320).

The response has the largest epoch in the log up to the requested one, and its end offset; both are
-1 if there is no such epoch.

v3: replica id
v4: flexible
"""

from functools import partial

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ...clients.topic_partition import TopicPartition
from ...security.access import CLUSTER_ACTION, DESCRIBE, TOPIC, access_of
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list


def handle(
    broker: BrokerContext, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each partition; topics that the client may not see come last."""
    access = access_of(broker, context)
    topics = request.topics
    denied: set[str] = set()
    if access is not None and not access.allows_cluster(CLUSTER_ACTION, audited=False):
        names = {topic.topic for topic in topics}
        denied = names - access.allowed(DESCRIBE, TOPIC, names)
        topics = sorted(topics, key=lambda topic: topic.topic in denied)

    def answer(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
        find = (
            _denied_result if topic.topic in denied else partial(_end_offset, broker, topic.topic)
        )
        return OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=lazy_list(find, topic.partitions)
        )

    return OffsetForLeaderEpochResponse(topics=lazy_list(answer, topics))


def _denied_result(partition: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(
        partition=partition.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def _end_offset(
    broker: BrokerContext, topic: str, partition: OffsetForLeaderPartition
) -> EpochEndOffset:
    try:
        end = broker.replica_manager.offset_for_leader_epoch(
            TopicPartition(topic, partition.partition),
            partition.current_leader_epoch,
            partition.leader_epoch,
        )
    except KafkaError as error:
        return EpochEndOffset(partition=partition.partition, error_code=error.code)
    return EpochEndOffset(
        partition=partition.partition,
        error_code=ErrorCode.NONE,
        leader_epoch=end.epoch,
        end_offset=end.end_offset,
    )
