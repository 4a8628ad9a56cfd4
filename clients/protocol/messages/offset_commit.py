"""OffsetCommit (key 8): stores a group's offsets at its coordinator.

Versions: 2 retention time, removed in 5; 3 throttle time; 6 leader epoch; 7 static members
(KIP-345); 8 flexible; 9 members of the consumer protocol (KIP-848), new errors; 10 topic ids.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, int64


class OffsetCommitRequestPartition(Struct):
    """An offset to commit."""

    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    committed_metadata: str | None = field("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field("0+")


class OffsetCommitRequest(Message, key=8, versions="2-10", flexible="8+"):
    """Offsets of one group, from a member or from outside the group (generation -1)."""

    group_id: str = field("0+")
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", nullable="7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field("0+")


class OffsetCommitResponsePartition(Struct):
    """Whether an offset was committed."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class OffsetCommitResponseTopic(Struct):
    """Results for one topic."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field("0+")


class OffsetCommitResponse(Message, key=8, versions="2-10", flexible="8+"):
    """The result for each offset."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field("0+")
