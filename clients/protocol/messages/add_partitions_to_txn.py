"""AddPartitionsToTxn (key 24): adds partitions to a transaction before it writes to them.

Versions: 0 to 3 one transaction, from a client; 2 PRODUCER_FENCED; 3 flexible; 4 several
transactions, from a broker, and an option to only check whether partitions were added (KIP-890);
5 TRANSACTION_ABORTABLE.
"""

from ..schema import Message, Struct, field, int16, int32, int64


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[int32] = field("0+")


class AddPartitionsToTxnTransaction(Struct):
    """One transaction, and the partitions to add to it or to verify."""

    transactional_id: str = field("4+")
    producer_id: int64 = field("4+")
    producer_epoch: int16 = field("4+")
    verify_only: bool = field("4+")
    topics: list[AddPartitionsToTxnTopic] = field("4+")


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    """Partitions to add."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: str = field("0-3")
    v3_and_below_producer_id: int64 = field("0-3")
    v3_and_below_producer_epoch: int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """Whether a partition was added."""

    partition_index: int32 = field("0+")
    partition_error_code: int16 = field("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """Results for one topic."""

    name: str = field("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field("0+")


class AddPartitionsToTxnResult(Struct):
    """Results for one transaction."""

    transactional_id: str = field("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+")


class AddPartitionsToTxnResponse(Message, key=24, versions="0-5", flexible="3+"):
    """The result for each partition."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")
