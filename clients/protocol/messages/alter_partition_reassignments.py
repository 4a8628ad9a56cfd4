"""AlterPartitionReassignments (key 45): changes the replicas of partitions (KIP-455).

Versions: 1 a change of the replication factor can be forbidden (KIP-860).
"""

from ..schema import Message, Struct, field, int16, int32


class ReassignablePartition(Struct):
    """A partition's target replicas; null cancels a reassignment."""

    partition_index: int32 = field("0+")
    replicas: list[int32] | None = field("0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[ReassignablePartition] = field("0+")


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    """The partitions to reassign."""

    timeout_ms: int32 = field("0+", default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field("0+")


class ReassignablePartitionResponse(Struct):
    """The result for one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[ReassignablePartitionResponse] = field("0+")


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0-1", flexible="0+"):
    """The result for each partition."""

    throttle_time_ms: int32 = field("0+")
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field("0+")
