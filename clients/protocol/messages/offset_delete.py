"""OffsetDelete (key 47): deletes some of a group's committed offsets (KIP-496). Version 0 only."""

from ..schema import Message, Struct, field, int16, int32


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int32 = field("0+")


class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[OffsetDeleteRequestPartition] = field("0+")


class OffsetDeleteRequest(Message, key=47, versions="0"):
    """The group and the partitions."""

    group_id: str = field("0+")
    topics: list[OffsetDeleteRequestTopic] = field("0+")


class OffsetDeleteResponsePartition(Struct):
    """Whether one offset was deleted."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class OffsetDeleteResponseTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[OffsetDeleteResponsePartition] = field("0+")


class OffsetDeleteResponse(Message, key=47, versions="0"):
    """The result for each partition."""

    error_code: int16 = field("0+")
    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field("0+")
