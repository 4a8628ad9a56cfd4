"""Produce (key 0): record batches to the leaders of their partitions.

Versions: 3 the first with record batches of magic 2 (and the transactional id); 5 log start offset
in the response; 7 allows zstd; 8 record errors; 9 flexible; 10 the new leader on
NOT_LEADER_OR_FOLLOWER (KIP-951); 11 and 12 transaction verification (KIP-890); 13 topic ids
(KIP-516). For old librdkafka, brokers announce versions from 0 on (KAFKA-18659), but close the
connection on versions 0 to 2.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Records, Struct, field, int16, int32, int64


class PartitionProduceData(Struct):
    """One batch for one partition."""

    index: int32 = field("0+")
    records: Records = field("0+", nullable="0+")


class TopicProduceData(Struct):
    """Batches for partitions of one topic."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field("0+")


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    """The batches to append, and the required acknowledgements (`acks`)."""

    transactional_id: str | None = field("3+", nullable="3+", default=None)
    acks: int16 = field("0+")
    timeout_ms: int32 = field("0+")
    topic_data: list[TopicProduceData] = field("0+")


class BatchIndexAndErrorMessage(Struct):
    """The index of a record that made its whole batch fail, and the reason."""

    batch_index: int32 = field("8+")
    batch_index_error_message: str | None = field("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The current leader, if this broker is not the leader; -1 if unknown."""

    leader_id: int32 = field("10+", default=-1)
    leader_epoch: int32 = field("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The base offset of a batch, or an error."""

    index: int32 = field("0+")
    error_code: int16 = field("0+")
    base_offset: int64 = field("0+")
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", ignorable=True)
    error_message: str | None = field("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0)


class TopicProduceResponse(Struct):
    """Results for one topic."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field("0+")


class NodeEndpoint(Struct):
    """The address of a leader named in the response."""

    node_id: int32 = field("10+")
    host: str = field("10+")
    port: int32 = field("10+")
    rack: str | None = field("10+", nullable="10+", default=None)


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    """The result for each batch."""

    responses: list[TopicProduceResponse] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)
