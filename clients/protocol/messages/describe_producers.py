"""DescribeProducers (key 61): a partition's producer states (KIP-664).

The only version is 0, which is flexible.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class TopicRequest(Struct):
    """One topic and some of its partitions."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    """The partitions to describe."""

    topics: list[TopicRequest] = field("0+")


class ProducerState(Struct):
    """The state of one producer id; -1 means none."""

    producer_id: int64 = field("0+")
    producer_epoch: int32 = field("0+")
    last_sequence: int32 = field("0+", default=-1)
    last_timestamp: int64 = field("0+", default=-1)
    coordinator_epoch: int32 = field("0+")
    current_txn_start_offset: int64 = field("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = field("0+")


class TopicResponse(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[PartitionResponse] = field("0+")


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    """The producers of each partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[TopicResponse] = field("0+")
