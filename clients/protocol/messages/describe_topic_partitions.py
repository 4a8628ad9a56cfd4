"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966).

The only version is 0, which is flexible.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32


class TopicRequest(Struct):
    """One topic by name."""

    name: str = field("0+")


class Cursor(Struct):
    """The first partition of a page."""

    topic_name: str = field("0+")
    partition_index: int32 = field("0+")


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    """The topics to describe (all if empty), and where to begin."""

    topics: list[TopicRequest] = field("0+")
    response_partition_limit: int32 = field("0+", default=2000)
    cursor: Cursor | None = field("0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition's leader, replicas and eligible leaders."""

    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+", default=-1, ignorable=True)
    replica_nodes: list[int32] = field("0+")
    isr_nodes: list[int32] = field("0+")
    eligible_leader_replicas: list[int32] | None = field("0+", nullable="0+", default=None)
    last_known_elr: list[int32] | None = field("0+", nullable="0+", default=None)
    offline_replicas: list[int32] = field("0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic, or as many of its partitions as fit."""

    error_code: int16 = field("0+")
    name: str | None = field("0+", nullable="0+")
    topic_id: Uuid = field("0+", ignorable=True)
    is_internal: bool = field("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    """One page, and the cursor of the next page, if any."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: Cursor | None = field("0+", nullable="0+", default=None)
