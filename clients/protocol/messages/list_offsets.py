"""ListOffsets (key 2): the offset at a timestamp, or at a named position of a log.

Versions: 1 one offset for each partition; 2 isolation level; 4 leader epochs; 6 flexible; 7 the
record with the largest timestamp (-3, KIP-734); 8 earliest local offset (-4, KIP-405); 9 last
tiered offset (-5, KIP-1005); 10 a timeout for lookups in the remote tier (KIP-1075); 11 the
earliest pending upload (-6, KIP-1023).
"""

from ..schema import Message, Struct, field, int8, int16, int32, int64


class ListOffsetsPartition(Struct):
    """One partition and a timestamp, or a negative number for a named offset."""

    partition_index: int32 = field("0+")
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    timestamp: int64 = field("0+")


class ListOffsetsTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[ListOffsetsPartition] = field("0+")


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
    """The offsets to look up. Replica id -1 is a consumer."""

    replica_id: int32 = field("0+")
    isolation_level: int8 = field("2+")
    topics: list[ListOffsetsTopic] = field("0+")
    timeout_ms: int32 = field("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset found, or -1."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """Offsets in one topic."""

    name: str = field("0+")
    partitions: list[ListOffsetsPartitionResponse] = field("0+")


class ListOffsetsResponse(Message, key=2, versions="1-11", flexible="6+"):
    """The offset for each partition."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field("0+")
