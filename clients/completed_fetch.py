"""What one partition's fetch brought, turned into records as they are asked for.

The broker sends whole batches, so the first may begin before the offset that was asked for, and a
batch may hold no record that the consumer gets to see: control records, and under read_committed
the records of aborted transactions. The position moves past all of them. Whose transactions were
aborted the broker says in the response (KIP-98): a list of producers, each with the first offset of
its aborted transaction, which ends at the producer's next abort marker.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, cast

from .protocol.messages.fetch import PartitionData
from .record.batch import RecordBatch, batches
from .record.control import ControlRecordType
from .topic_partition import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record as a consumer gets it; the timestamp is in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = -1


class CompletedFetch:
    """The records of one partition in one response, taken a few at a time."""

    def __init__(
        self, partition: TopicPartition, fetch_offset: int, data: PartitionData, *, check_crcs: bool
    ) -> None:
        self.partition = partition
        # Where the consumer stands after what it has taken.
        self.next_offset = fetch_offset
        self.last_epoch = -1
        self.is_drained = False
        self._check_crcs = check_crcs
        self._aborted = deque(
            sorted(
                (transaction.first_offset, transaction.producer_id)
                for transaction in data.aborted_transactions or ()
            )
        )
        self._aborted_producers: set[int] = set()
        # A decoded response holds views of what was received.
        records = cast("memoryview | None", data.records)
        self._records = self._read(records if records is not None else memoryview(b""))

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """The next records. Raises `KafkaError` where the broker's bytes are not sound."""
        taken = list(islice(self._records, max_records))
        self.is_drained = len(taken) < max_records
        return taken

    def _read(self, data: memoryview) -> Iterator[ConsumerRecord]:
        topic, partition = self.partition
        for batch in batches(data):
            if batch.next_offset <= self.next_offset:
                continue
            if self._check_crcs:
                batch.ensure_valid()
            epoch = batch.partition_leader_epoch
            if not self._is_hidden(batch):
                for offset, timestamp, key, value, headers in batch.records():
                    if offset >= self.next_offset:
                        self.next_offset = offset + 1
                        self.last_epoch = epoch
                        yield ConsumerRecord(
                            topic, partition, offset, timestamp, key, value, headers, epoch
                        )
            self.next_offset = batch.next_offset
            self.last_epoch = epoch

    def _is_hidden(self, batch: RecordBatch) -> bool:
        """Whether a batch is the broker's own or belongs to an aborted transaction."""
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborted_producers.add(self._aborted.popleft()[1])
        if batch.is_control:
            if batch.control_type() is ControlRecordType.ABORT:
                self._aborted_producers.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborted_producers
