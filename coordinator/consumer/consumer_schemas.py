"""Keys and values of consumer protocol groups in `__consumer_offsets`, as Kafka declares them.

The names and fields are those of `common/message` in Apache Kafka 4.3.1's group coordinator. Keys
are not flexible, values are; each has one version. `consumer_records.py` explains the records.
"""

from ...clients.kafka_uuid import Uuid
from ...clients.protocol.schema import Message, Struct, field, int8, int32, int64


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    group_id: str = field("0")


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0"):
    group_id: str = field("0")


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    group_id: str = field("0")
    member_id: str = field("0")


class ClassicProtocol(Struct):
    name: str = field("0+")
    metadata: bytes = field("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = field("0+")
    supported_protocols: list[ClassicProtocol] = field("0+")


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    instance_id: str | None = field("0+", nullable="0+")
    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    subscribed_topic_regex: str | None = field("0+", nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    server_assignor: str | None = field("0+", nullable="0+")
    # Kafka's definition has `"default": null` without quotes, which its generator ignores, so the
    # default is the empty struct, and null is written for a member of the consumer protocol.
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    group_id: str = field("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartition(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field("0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    group_id: str = field("0")
    member_id: str = field("0")


class TopicPartitions(Struct):
    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")
    # As with the classic metadata, null is not the default.
    assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    state: int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")
    partitions_pending_revocation: list[TopicPartitions] = field("0+")


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    topics: list[str] = field("0+")
    version: int64 = field("0+")
    timestamp: int64 = field("0+")
