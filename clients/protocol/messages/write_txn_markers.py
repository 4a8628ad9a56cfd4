"""WriteTxnMarkers (key 27): writes the coordinator's markers to the partitions of transactions.

Versions: 1 flexible; 2 the transaction version (KIP-1228). Sent between brokers, and by
administrators who abort a hanging transaction (KIP-664).
"""

from ..schema import Message, Struct, field, int8, int16, int32, int64


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class WritableTxnMarker(Struct):
    """The outcome of one producer's transaction, and the partitions to write it to."""

    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    transaction_result: bool = field("0+")
    topics: list[WritableTxnMarkerTopic] = field("0+")
    coordinator_epoch: int32 = field("0+")
    transaction_version: int8 = field("2+", ignorable=True)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    """The markers to write."""

    markers: list[WritableTxnMarker] = field("0+")


class WritableTxnMarkerPartitionResult(Struct):
    """Whether a partition's marker was written."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class WritableTxnMarkerTopicResult(Struct):
    """Results for one topic."""

    name: str = field("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = field("0+")


class WritableTxnMarkerResult(Struct):
    """Results for one producer."""

    producer_id: int64 = field("0+")
    topics: list[WritableTxnMarkerTopicResult] = field("0+")


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    """The result for each marker."""

    markers: list[WritableTxnMarkerResult] = field("0+")
