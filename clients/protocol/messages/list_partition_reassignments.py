"""ListPartitionReassignments (key 46): the ongoing reassignments (KIP-455).

The only version is 0, which is flexible.
"""

from ..schema import Message, Struct, field, int16, int32


class ListPartitionReassignmentsTopics(Struct):
    """One topic and some of its partitions."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    """The partitions to list; null means all."""

    timeout_ms: int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field("0+", nullable="0+", default=None)


class OngoingPartitionReassignment(Struct):
    """A partition's replicas, with those being added and removed."""

    partition_index: int32 = field("0+")
    replicas: list[int32] = field("0+")
    adding_replicas: list[int32] = field("0+")
    removing_replicas: list[int32] = field("0+")


class OngoingTopicReassignment(Struct):
    """One topic and its partitions under reassignment."""

    name: str = field("0+")
    partitions: list[OngoingPartitionReassignment] = field("0+")


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    """Only partitions under reassignment."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field("0+")
