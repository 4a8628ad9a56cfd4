"""ConsumerGroupHeartbeat (key 68): joins, stays in and leaves a group of the consumer protocol.

Fields unchanged since the last heartbeat are null (or -1), and so is an unchanged assignment.
KIP-848. Versions: 1 a regular expression as subscription, and member ids that the client
draws (KIP-1082).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    """A member's topics and partitions. Epoch 0 joins, -1 leaves, -2 leaves briefly (static)."""

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", nullable="0+", default=None)
    rack_id: str | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    subscribed_topic_names: list[str] | None = field("0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = field("1+", nullable="1+", default=None)
    server_assignor: str | None = field("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field("0+", nullable="0+", default=None)


class Assignment(Struct):
    """The partitions that the member may consume now."""

    topic_partitions: list[TopicPartitions] = field("0+")


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its assignment if it changed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: Assignment | None = field("0+", nullable="0+", default=None)
