"""Fetch (key 1): record batches from leaders, for consumers and for followers.

Versions: 4 isolation level and aborted transactions; 5 log start offsets; 7 fetch sessions
(KIP-227); 9 fencing by leader epoch (KIP-320); 10 allows zstd; 11 rack and preferred read replica
(KIP-392); 12 flexible, the last fetched epoch and diverging epoch; 13 topic ids (KIP-516);
15 replica state (KIP-903); 16 node endpoints (KIP-951); 17 replica directory; 18 the replica's
high watermark (KIP-1166).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Records, Struct, field, int8, int16, int32, int64


class ReplicaState(Struct):
    """The id and broker epoch of the fetching follower; -1 for a consumer."""

    replica_id: int32 = field("15+", default=-1)
    replica_epoch: int64 = field("15+", default=-1)


class FetchPartition(Struct):
    """One partition, the fetch offset, and the leader epochs known to the reader."""

    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: int64 = field("0+")
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: int32 = field("0+")
    replica_directory_id: Uuid = field("17+", tag=0, ignorable=True)
    high_watermark: int64 = field("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)


class FetchTopic(Struct):
    """Partitions of one topic, by name up to version 12, by id from 13 on."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field("0+")


class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: str = field("7-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[int32] = field("7+")


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    """The partitions to read, and how long to wait for `min_bytes`."""

    cluster_id: str | None = field("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field("4+", ignorable=True)
    session_id: int32 = field("7+", ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)


class EpochEndOffset(Struct):
    """The end of the last common epoch, to which a diverging follower truncates."""

    epoch: int32 = field("12+", default=-1)
    end_offset: int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The current leader, if this broker is not the leader; -1 if unknown."""

    leader_id: int32 = field("12+", default=-1)
    leader_epoch: int32 = field("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot to be fetched by a follower that is behind the log start offset."""

    end_offset: int64 = field("0+", default=-1)
    epoch: int32 = field("0+", default=-1)


class AbortedTransaction(Struct):
    """An aborted transaction: skip its records from this offset on."""

    producer_id: int64 = field("4+")
    first_offset: int64 = field("4+")


class PartitionData(Struct):
    """Records of one partition, or an error."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    high_watermark: int64 = field("0+")
    last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1)
    snapshot_id: SnapshotId = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int32 = field("11+", default=-1)
    records: Records = field("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    """Partitions of one topic."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[PartitionData] = field("0+")


class NodeEndpoint(Struct):
    """The address of a leader named in the response."""

    node_id: int32 = field("16+")
    host: str = field("16+")
    port: int32 = field("16+")
    rack: str | None = field("16+", nullable="16+", default=None)


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    """The records. In a session, unchanged partitions are left out."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("7+", ignorable=True)
    session_id: int32 = field("7+")
    responses: list[FetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)
