"""TxnOffsetCommit (key 28): a group's offsets, committed with the transaction.

Versions: 2 leader epoch; 3 flexible, the member and its generation (KIP-447); 4
TRANSACTION_ABORTABLE; 5 adds the group's offsets to the transaction implicitly (KIP-890).
"""

from ..schema import Message, Struct, field, int16, int32, int64


class TxnOffsetCommitRequestPartition(Struct):
    """An offset to commit."""

    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: str | None = field("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: str = field("0+")
    partitions: list[TxnOffsetCommitRequestPartition] = field("0+")


class TxnOffsetCommitRequest(Message, key=28, versions="0-5", flexible="3+"):
    """Offsets of one group, from one transaction."""

    transactional_id: str = field("0+")
    group_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    generation_id: int32 = field("3+", default=-1)
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field("0+")


class TxnOffsetCommitResponsePartition(Struct):
    """Whether an offset was accepted."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """Results for one topic."""

    name: str = field("0+")
    partitions: list[TxnOffsetCommitResponsePartition] = field("0+")


class TxnOffsetCommitResponse(Message, key=28, versions="0-5", flexible="3+"):
    """The result for each offset."""

    throttle_time_ms: int32 = field("0+")
    topics: list[TxnOffsetCommitResponseTopic] = field("0+")
