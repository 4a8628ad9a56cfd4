"""Tracks transactions during a cleaning, from the aborted-transaction indexes of the log.

Records of aborted transactions are removed (CL4). An abort marker and its index entry are kept as
long as any batch of the transaction remains, even an empty batch kept for the producer. A marker
may be removed once its delete horizon has passed, if no batch of the transaction is left or the
marker's own batch is empty (`CleanedTransactionMetadata` in Kafka).
"""

from collections import deque
from collections.abc import Iterable

from ...clients.record.batch import RecordBatch
from ...clients.record.control import ControlRecordType
from ..segment.transaction_index import AbortedTxn


class CleanedTransactions:
    """Tracks one pass over a log's batches, in order. `kept` has the index entries to write."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def may_discard(self, batch: RecordBatch) -> bool:
        """Track the next batch; returns whether the state of its transaction lets it be removed."""
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            txn = self._coming.popleft()
            self._aborted.setdefault(txn.producer_id, txn)
        if batch.is_control:
            return self._may_discard_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._with_batches.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _may_discard_marker(self, batch: RecordBatch) -> bool:
        if not batch.record_count:
            return True
        producer_id = batch.producer_id
        kind = batch.control_type()
        if kind is ControlRecordType.ABORT:
            txn = self._aborted.pop(producer_id, None)
            has_batches = producer_id in self._with_batches
            self._with_batches.discard(producer_id)
            if txn is None or not has_batches:
                return True
            self.kept.append(txn)
            return False
        if kind is ControlRecordType.COMMIT:
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        return False
