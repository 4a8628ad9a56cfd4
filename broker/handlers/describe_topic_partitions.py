"""DescribeTopicPartitions (key 75), version 0: the partitions of topics, page by page (KIP-966).

Topics are sorted by name, their partitions by number. A page ends at the client's limit, or at
`max.request.partition.size.limit` if that is smaller. The cursor in the response is where the next
page begins. A request without names gets every topic.
"""

from collections.abc import Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...replication.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ...replication.topic_names import INTERNAL_TOPICS, validate_topic_name
from ...security.access import DESCRIBE, TOPIC, Access, access_of
from ..request.authorized_operations import OPERATIONS_NOT_REQUESTED, topic_operations
from ..request.context import BrokerContext, RequestContext

_NO_LEADER = -1


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page."""
    image = broker.controller.image
    cursor = request.cursor
    start = "" if cursor is None else cursor.topic_name
    names = [topic.name for topic in request.topics] or list(image.topics_by_name)
    topics = sorted({name for name in names if name >= start})
    if cursor is not None:
        is_missing = bool(request.topics) and cursor.topic_name not in topics
        if is_missing or cursor.partition_index < 0:
            return _refusal(request)
    limit = broker.config.values.integer("max.request.partition.size.limit")
    room = max(min(request.response_partition_limit, limit), 1)
    access = access_of(broker, context)
    page = _Page(image, context.listener, room, access)
    denied: list[str] = []
    for name in topics:
        is_named = bool(request.topics)
        if access is not None and not access.allows(DESCRIBE, TOPIC, name, audited=is_named):
            denied.append(name)
            continue
        first = cursor.partition_index if cursor is not None and name == start else 0
        if not page.add(name, first):
            break
    if request.topics:
        page.response.topics += map(_denied_topic, denied)
    return page.response


def _denied_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The answer whether the topic exists or not."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_authorized_operations=OPERATIONS_NOT_REQUESTED,
    )


def _refusal(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Refuse a cursor with a negative partition, or at a topic that is not requested."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
            for topic in request.topics
        ]
    )


class _Page:
    """A response that is being filled."""

    def __init__(
        self, image: ClusterImage, listener: str, room: int, access: Access | None
    ) -> None:
        self.response = DescribeTopicPartitionsResponse()
        self._image = image
        self._listener = listener
        self._room = room
        self._access = access

    def add(self, name: str, first: int) -> bool:
        """Add a topic from partition `first` on; False if not all of it fits."""
        if self._room == 0:
            self.response.next_cursor = Cursor(topic_name=name, partition_index=0)
            return False
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            self.response.topics.append(_unknown(name, self._access))
            return True
        end = min(len(topic.partitions), first + self._room)
        partitions = self._partitions(topic, range(first, end))
        self._room -= len(partitions)
        self.response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=partitions,
                topic_authorized_operations=topic_operations(self._access, name),
            )
        )
        if end < len(topic.partitions):
            self.response.next_cursor = Cursor(topic_name=name, partition_index=end)
            return False
        return True

    def _partitions(
        self, topic: TopicImage, indexes: Sequence[int]
    ) -> list[DescribeTopicPartitionsResponsePartition]:
        return [
            self._partition(index, topic.partitions[index])
            for index in indexes
            if index in topic.partitions
        ]

    def _partition(
        self, index: int, partition: PartitionImage
    ) -> DescribeTopicPartitionsResponsePartition:
        brokers = self._image.brokers
        leader = brokers.get(partition.leader)
        is_reachable = (
            leader is not None and not leader.fenced and self._listener in leader.endpoints
        )
        return DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader if is_reachable else _NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
            offline_replicas=[
                replica
                for replica in partition.replicas
                if replica not in brokers or brokers[replica].fenced
            ],
        )


def _unknown(name: str, access: Access | None) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        validate_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=topic_operations(access, name),
    )
