"""What a cleaning knows of the transactions it passes, from the log's aborted-transaction indexes.

Records of aborted transactions go (CL4). An abort marker stays as long as a batch of its
transaction does, be it an empty one that is kept for its producer's sake, and then its entry in the
index is written anew. A marker of whose transaction nothing is left may go in time; so may one that
was emptied before (`CleanedTransactionMetadata` in Kafka).
"""

from collections import deque
from collections.abc import Iterable

from ...clients.record.batch import RecordBatch
from ...clients.record.control import ControlRecordType
from ..segment.transaction_index import AbortedTxn


class CleanedTransactions:
    """One pass over the batches of a log, in order. `kept` collects index entries to be written."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def may_discard(self, batch: RecordBatch) -> bool:
        """Whether the batch's records are of no use, as far as its transaction decides that."""
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
