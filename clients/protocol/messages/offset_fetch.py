"""OffsetFetch (key 9): a group's committed offsets.

Versions: 2 all topics (null) and a top-level error; 3 throttle time; 5 leader epoch; 6 flexible;
7 stable offsets only (KIP-447); 8 several groups in one request (KIP-709), which moves all fields
one level down; 9 members of the consumer protocol (KIP-848); 10 topic ids.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, int64


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to version 7."""

    name: str = field("0-7")
    partition_indexes: list[int32] = field("0-7")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, from version 8 on."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partition_indexes: list[int32] = field("8+")


class OffsetFetchRequestGroup(Struct):
    """One group, and the topics whose offsets to fetch; null means all."""

    group_id: str = field("8+")
    member_id: str | None = field("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+", nullable="8+")


class OffsetFetchRequest(Message, key=9, versions="1-10", flexible="6+"):
    """The groups whose offsets to fetch."""

    group_id: str = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: bool = field("7+")


class OffsetFetchResponsePartition(Struct):
    """A committed offset, or -1 if there is none; up to version 7."""

    partition_index: int32 = field("0-7")
    committed_offset: int64 = field("0-7")
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7", nullable="0-7")
    error_code: int16 = field("0-7")


class OffsetFetchResponseTopic(Struct):
    """Offsets of one topic, up to version 7."""

    name: str = field("0-7")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


class OffsetFetchResponsePartitions(Struct):
    """A committed offset, or -1 if there is none; from version 8 on."""

    partition_index: int32 = field("8+")
    committed_offset: int64 = field("8+")
    committed_leader_epoch: int32 = field("8+", default=-1, ignorable=True)
    metadata: str | None = field("8+", nullable="8+")
    error_code: int16 = field("8+")


class OffsetFetchResponseTopics(Struct):
    """Offsets of one topic, from version 8 on."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


class OffsetFetchResponseGroup(Struct):
    """Offsets of one group."""

    group_id: str = field("8+")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: int16 = field("8+")


class OffsetFetchResponse(Message, key=9, versions="1-10", flexible="6+"):
    """The offsets: of one group up to version 7, of several from 8 on."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")
