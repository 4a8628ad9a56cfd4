"""AddOffsetsToTxn (key 25): adds a group's offsets to a transaction.

Versions: 2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from ..schema import Message, field, int16, int32, int64


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    """The transaction and the group."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    group_id: str = field("0+")


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    """Whether the group's offsets were added to the transaction."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
