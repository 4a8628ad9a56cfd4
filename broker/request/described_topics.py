"""A cache of the topic descriptions in Metadata responses.

A topic with many partitions takes a hundred times longer to describe than to look up, and most
clients refresh their metadata every few minutes although nothing has changed. A description is
valid until the topic or any broker changes. Callers must not modify it.
"""

from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...replication.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ...replication.topic_names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from ...clients.kafka_uuid import Uuid


class _Described(NamedTuple):
    """A description, and the topic and brokers that it was made from."""

    topic: TopicImage
    brokers: object
    answer: MetadataResponseTopic


class DescribedTopics:
    """The descriptions of one broker: one for each requested topic and listener."""

    def __init__(self) -> None:
        self._descriptions: dict[tuple[str, Uuid], _Described] = {}
        self._topics: object = None

    def __len__(self) -> int:
        return len(self._descriptions)

    def describe(
        self, image: ClusterImage, listener: str, topic: TopicImage
    ) -> MetadataResponseTopic:
        """The topic as clients of that listener see it. Callers must not modify it."""
        if self._topics is not image.topics_by_id:
            self._topics = image.topics_by_id
            deleted = [key for key in self._descriptions if key[1] not in image.topics_by_id]
            for key in deleted:
                del self._descriptions[key]
        described = self._descriptions.get((listener, topic.topic_id))
        if (
            described is None
            or described.topic is not topic
            or described.brokers is not image.brokers
        ):
            described = _Described(topic, image.brokers, describe_topic(image, listener, topic))
            self._descriptions[listener, topic.topic_id] = described
        return described.answer


def describe_topic(image: ClusterImage, listener: str, topic: TopicImage) -> MetadataResponseTopic:
    """The topic as clients of that listener see it."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(image, listener, index, partition)
            for index, partition in topic.partitions.items()
        ],
    )


def _partition(
    image: ClusterImage, listener: str, index: int, partition: PartitionImage
) -> MetadataResponsePartition:
    leader = image.brokers.get(partition.leader)
    code = ErrorCode.NONE
    if leader is None or leader.fenced:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif listener not in leader.endpoints:
        code = ErrorCode.LISTENER_NOT_FOUND
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=-1 if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[
            replica
            for replica in partition.replicas
            if replica not in image.brokers or image.brokers[replica].fenced
        ],
    )
