"""DescribeTransactions (key 65), version 0: transactions by their id, from their coordinator."""

from ..schema import Message, Struct, field, int16, int32, int64


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    """The transactional ids to describe."""

    transactional_ids: list[str] = field("0+")


class TopicData(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class TransactionState(Struct):
    """One transactional id."""

    error_code: int16 = field("0+")
    transactional_id: str = field("0+")
    transaction_state: str = field("0+")
    transaction_timeout_ms: int32 = field("0+")
    transaction_start_time_ms: int64 = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    topics: list[TopicData] = field("0+")


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    """The transactions, in the order of the request."""

    throttle_time_ms: int32 = field("0+")
    transaction_states: list[TransactionState] = field("0+")
