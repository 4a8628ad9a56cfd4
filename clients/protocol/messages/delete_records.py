"""DeleteRecords (key 21): records below an offset are gone for good (KIP-107).

Versions: 2 flexible; nothing else changed.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class DeleteRecordsPartition(Struct):
    """Below which offset records go; -1 is the high watermark."""

    partition_index: int32 = field("0+")
    offset: int64 = field("0+")


class DeleteRecordsTopic(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartition] = field("0+")


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """What is to be deleted."""

    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: int32 = field("0+")


class DeleteRecordsPartitionResult(Struct):
    """Where a partition begins now, over all of its replicas."""

    partition_index: int32 = field("0+")
    low_watermark: int64 = field("0+")
    error_code: int16 = field("0+")


class DeleteRecordsTopicResult(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartitionResult] = field("0+")


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    """What became of each partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")
