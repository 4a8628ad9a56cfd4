"""OffsetForLeaderEpoch (key 23): the end of a leader epoch, to which diverged readers truncate.

Versions: 2 fencing by leader epoch (KIP-320); 3 replica id; 4 flexible.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class OffsetForLeaderPartition(Struct):
    """One partition and the epoch to look up."""

    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: int32 = field("0+")


class OffsetForLeaderTopic(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[OffsetForLeaderPartition] = field("0+")


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    """The epochs to look up. Replica id -1 is a consumer, -2 a debugging consumer."""

    replica_id: int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field("0+")


class EpochEndOffset(Struct):
    """The largest known epoch up to the requested one, and its end offset; -1 if undefined."""

    error_code: int16 = field("0+")
    partition: int32 = field("0+")
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    end_offset: int64 = field("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """End offsets in one topic."""

    topic: str = field("0+")
    partitions: list[EpochEndOffset] = field("0+")


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    """The end offset for each partition."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field("0+")
