"""EndTxn (key 26): commits or aborts a transaction.

Versions: 2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE; 5 every transaction ends with a
new epoch, which is in the response (KIP-890).
"""

from ..schema import Message, field, int16, int32, int64


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """Whether to commit or abort the transaction."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    committed: bool = field("0+")


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    """The result, and the producer's new id and epoch."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)
