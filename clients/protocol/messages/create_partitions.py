"""CreatePartitions (key 37): more partitions for existing topics.

Versions: 2 flexible; 3 THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from ..schema import Message, Struct, field, int16, int32


class CreatePartitionsAssignment(Struct):
    """The brokers of one new partition, its preferred leader first."""

    broker_ids: list[int32] = field("0+")


class CreatePartitionsTopic(Struct):
    """One topic and its new total number of partitions."""

    name: str = field("0+")
    count: int32 = field("0+")
    assignments: list[CreatePartitionsAssignment] | None = field("0+", nullable="0+")


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    """The topics to extend."""

    topics: list[CreatePartitionsTopic] = field("0+")
    timeout_ms: int32 = field("0+")
    validate_only: bool = field("0+")


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    """The result for each topic."""

    throttle_time_ms: int32 = field("0+")
    results: list[CreatePartitionsTopicResult] = field("0+")
