"""DeleteRecords (key 21): deletes records below an offset (KIP-107).

Versions: 2 flexible; nothing else changed.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class DeleteRecordsPartition(Struct):
    """The offset below which to delete records; -1 is the high watermark."""

    partition_index: int32 = field("0+")
    offset: int64 = field("0+")


class DeleteRecordsTopic(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartition] = field("0+")


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """The records to delete."""

    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: int32 = field("0+")


class DeleteRecordsPartitionResult(Struct):
    """A partition's low watermark: the lowest log start offset of its replicas."""

    partition_index: int32 = field("0+")
    low_watermark: int64 = field("0+")
    error_code: int16 = field("0+")


class DeleteRecordsTopicResult(Struct):
    """One topic and its partitions."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartitionResult] = field("0+")


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    """The result for each partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")
