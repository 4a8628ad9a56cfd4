"""EndTxn (key 26): commit or abort.

Versions: 2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE; 5 every transaction ends with a
new epoch, which the response names (KIP-890).
"""

from ..schema import Message, field, int16, int32, int64


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """How the transaction is to end."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    committed: bool = field("0+")


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    """Whether it is decided, and who the producer is from now on."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)
