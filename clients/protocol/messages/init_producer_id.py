"""InitProducerId (key 22): a producer id and epoch for an idempotent or transactional producer.

Versions: 2 flexible; 3 the producer may send its current id and epoch (KIP-360); 4 PRODUCER_FENCED;
5 TRANSACTION_ABORTABLE (KIP-890); 6 two-phase commit (KIP-939), defined but not announced by
Apache Kafka 4.3.
"""

from ..schema import Message, field, int16, int32, int64


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    """The producer's transactional id, if any; without one, the producer gets a new producer id."""

    transactional_id: str | None = field("0+", nullable="0+")
    transaction_timeout_ms: int32 = field("0+")
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: bool = field("6+")
    keep_prepared_txn: bool = field("6+")


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    """The producer id and epoch."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    producer_id: int64 = field("0+", default=-1)
    producer_epoch: int16 = field("0+")
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
