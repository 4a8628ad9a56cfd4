"""The state that a log keeps for one producer, and the checks of its next batch (KIP-98).

A producer assigns sequence numbers per partition. The log keeps the metadata of each producer's
last five batches, the most that a client may have in flight, and checks a new batch:

- A batch with the epoch and sequence numbers of one of the five is a duplicate: the response has
  the original's offset, and nothing is appended.
- Otherwise the first sequence number must be the last one plus 1 (0 follows 2147483647).
- With a higher epoch it must be 0. A lower epoch is rejected: that producer is fenced.
- A producer without state (new, expired, or with deleted records) may start at any number.

While a producer's transaction is open, it must write transactional batches. Followers skip these
checks, because the leader has made them (Kafka's `ProducerStateEntry`, `ProducerAppendInfo`).
"""

from collections import deque
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import (
    MAX_INT32,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
)
from ...clients.record.control import ControlRecordType, EndTransactionMarker

BATCHES_TO_RETAIN = 5
NO_COORDINATOR_EPOCH = -1


class AppendOrigin(Enum):
    """Who appends a batch; this determines which checks are made."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft leader"


class BatchMetadata(NamedTuple):
    """One appended batch, with its last offset in the log and its largest timestamp."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @staticmethod
    def of(batch: RecordBatch) -> "BatchMetadata":
        """The metadata of a batch that has its final offsets."""
        return BatchMetadata(
            batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp
        )

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_INT32

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A completed transaction, from its first offset to the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    """The state of one producer id in one log."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.current_txn_first_offset: int | None = None
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def state(self) -> tuple[object, ...]:
        """All fields, for comparing entries."""
        return (
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_txn_first_offset,
            tuple(self.batches),
        )

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The earlier batch, of the last five, that `batch` duplicates; None if there is none."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for appended in self.batches:
            if appended.last_sequence == last and appended.first_sequence == first:
                return appended
        return None

    def check_data_batch(self, batch: RecordBatch, origin: AppendOrigin) -> None:
        """Raise KafkaError unless `batch` may be appended now."""
        if origin is AppendOrigin.REPLICATION:
            return
        self._check_epoch(batch.producer_epoch)
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        if self.current_txn_first_offset is not None and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {self.producer_id} has an open transaction on this partition and must "
                "write transactional batches until the transaction ends.",
            )

    def check_transaction_start(self, batch: RecordBatch) -> None:
        """Raise KafkaError unless `batch` may be this producer's first batch in a transaction.

        With transactions v2 (KIP-890), a producer without batches must start at sequence 0; any
        other start means that a batch is missing (Kafka's ProducerAppendInfo.checkSequence).
        """
        if batch.base_sequence and not self.batches:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"The first batch of producer {batch.producer_id} has sequence number "
                f"{batch.base_sequence}, but must start at 0.",
            )

    def check_marker(self, batch: RecordBatch, marker: EndTransactionMarker) -> None:
        """Raise KafkaError if the marker's producer epoch or coordinator epoch is too old."""
        self._check_epoch(batch.producer_epoch)
        if marker.coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {self.producer_id}: "
                f"{marker.coordinator_epoch} (zombie), {self.coordinator_epoch} (current)",
            )

    def _check_epoch(self, epoch: int) -> None:
        if epoch < self.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {self.producer_id} is {epoch}, which is smaller than the "
                f"last seen epoch {self.producer_epoch}",
            )

    def _check_sequence(self, batch: RecordBatch) -> None:
        first = batch.base_sequence
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if batch.producer_epoch != self.producer_epoch:
            if first != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {self.producer_id}: "
                    f"{batch.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{self.producer_epoch} (current producer epoch)",
                )
            return
        expected = 0 if self.last_sequence == MAX_INT32 else self.last_sequence + 1
        if first != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {self.producer_id}: {first} "
                f"(incoming seq. number), {self.last_sequence} (current end sequence number)",
            )

    def append_data_batch(self, batch: RecordBatch) -> bool:
        """Update the state for an appended batch; returns whether it begins a transaction."""
        self._move_to_epoch(batch.producer_epoch)
        self.batches.append(BatchMetadata.of(batch))
        self.last_timestamp = batch.max_timestamp
        if batch.is_transactional and self.current_txn_first_offset is None:
            self.current_txn_first_offset = batch.base_offset
            return True
        return False

    def append_marker(
        self, batch: RecordBatch, marker: EndTransactionMarker
    ) -> CompletedTxn | None:
        """Update the state for a marker; returns the completed transaction unless it was empty."""
        self._move_to_epoch(batch.producer_epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp = batch.max_timestamp
        first_offset, self.current_txn_first_offset = self.current_txn_first_offset, None
        if first_offset is None:
            return None
        is_aborted = marker.control_type is ControlRecordType.ABORT
        return CompletedTxn(self.producer_id, first_offset, batch.last_offset, is_aborted)

    def _move_to_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch


def end_transaction_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """The transaction marker in a control batch; None for the control batches of KRaft."""
    for record in batch.records():
        kind = ControlRecordType.parse(record.key)
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return EndTransactionMarker.parse(record.key, record.value)
        return None
    return None
