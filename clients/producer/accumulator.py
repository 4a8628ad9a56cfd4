"""Collects records into batches, by partition (`RecordAccumulator` in Kafka).

Each partition has a queue of batches: records are added to the last batch, and the first batch is
sent. A batch is ready when it is full, when another is queued behind it, when its linger time is
over, or during a flush. Only one batch of a partition is in flight at a time, so that retries keep
the order of batches and their sequence numbers (KIP-98).

This module does no I/O: callers pass the time, in seconds of the event loop's clock.
"""

from asyncio import Future
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from ..record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence
from ..record.builder import BatchFields, Headers, RecordBatchBuilder
from ..record.compression import CompressionType
from ..topic_partition import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record was written; offset -1 if the broker does not respond (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerRecord(NamedTuple):
    """One record to be sent; the timestamp is in milliseconds since the epoch."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size_bytes(self) -> int:
        """The maximum number of bytes that the record adds to a batch."""
        size = _RECORD_OVERHEAD_BYTES + len(self.key or b"") + len(self.value or b"")
        for key, value in self.headers:
            size += _HEADER_OVERHEAD_BYTES + len(key.encode()) + len(value or b"")
        return size


_RECORD_OVERHEAD_BYTES = 41
_HEADER_OVERHEAD_BYTES = 10


class ProducerIdAndEpoch(NamedTuple):
    """An idempotent producer's identity; -1 and -1 without idempotence."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class ProducerBatch:
    """The records of one batch, and the futures that their senders wait for."""

    partition: TopicPartition
    created_at: float
    records: list[ProducerRecord] = field(default_factory=list[ProducerRecord])
    futures: list[Future[RecordMetadata]] = field(default_factory=list[Future[RecordMetadata]])
    size_bytes: int = 0
    attempts: int = 0
    retry_at: float = 0.0
    identity: ProducerIdAndEpoch | None = None
    base_sequence: int = NO_SEQUENCE

    def build(self, compression: CompressionType) -> bytearray:
        """Encode the records with the batch's identity and sequence."""
        fields: BatchFields = {"compression": compression}
        if self.identity is not None:
            fields["producer_id"], fields["producer_epoch"] = self.identity
            fields["base_sequence"] = self.base_sequence
        builder = RecordBatchBuilder(**fields)
        for record in self.records:
            builder.append(record.timestamp, record.key, record.value, record.headers)
        return builder.build()

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Complete each record's future with its metadata."""
        topic, partition = self.partition
        for index, (record, future) in enumerate(zip(self.records, self.futures, strict=True)):
            if not future.done():
                offset = base_offset + index if base_offset >= 0 else -1
                timestamp = record.timestamp if log_append_time_ms < 0 else log_append_time_ms
                future.set_result(RecordMetadata(topic, partition, offset, timestamp))

    def fail(self, error: Exception) -> None:
        """Fail the futures of all records of an abandoned batch."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


class RecordAccumulator:
    """The batch queues of all partitions, with a bound on their total size."""

    def __init__(self, *, batch_bytes: int, linger_seconds: float, buffer_bytes_max: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_seconds = linger_seconds
        self._buffer_bytes_max = buffer_bytes_max
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._under_way: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self._is_flushing = False
        self.buffered_bytes = 0
        # The futures of the records in `buffered_bytes`, neither acknowledged nor failed yet.
        self.incomplete: set[Future[RecordMetadata]] = set()

    def has_room(self, record: ProducerRecord) -> bool:
        """Whether the buffer has room for this record; an empty buffer accepts any size."""
        return (
            not self.buffered_bytes
            or self.buffered_bytes + record.size_bytes <= self._buffer_bytes_max
        )

    def append(
        self,
        partition: TopicPartition,
        record: ProducerRecord,
        future: Future[RecordMetadata],
        now: float,
    ) -> bool:
        """Add a record; returns whether the partition has a full batch or several batches."""
        queue = self._queues.setdefault(partition, deque())
        size = record.size_bytes
        begins = (
            not queue or queue[-1].attempts or (queue[-1].size_bytes + size > self._batch_bytes)
        )
        if begins:
            queue.append(ProducerBatch(partition, now))
        batch = queue[-1]
        batch.records.append(record)
        batch.futures.append(future)
        batch.size_bytes += size
        self.buffered_bytes += size
        self.incomplete.add(future)
        return len(queue) > 1 or batch.size_bytes >= self._batch_bytes

    def begin_flush(self) -> None:
        """Make all batches ready at once, including those begun before `end_flush`."""
        self._is_flushing = True

    def end_flush(self) -> None:
        self._is_flushing = False

    def ready(self, now: float) -> tuple[list[TopicPartition], float | None]:
        """The partitions whose first batch may be sent, and when the next one is ready."""
        partitions: list[TopicPartition] = []
        next_at: float | None = None
        for partition, queue in self._queues.items():
            if not queue or partition in self._under_way:
                continue
            at = self._ready_at(queue)
            if at <= now:
                partitions.append(partition)
            elif next_at is None or at < next_at:
                next_at = at
        return partitions, next_at

    def take(self, partition: TopicPartition, identity: ProducerIdAndEpoch | None) -> ProducerBatch:
        """Take the first batch to send it; `requeue` or `finish` frees the partition again."""
        assert partition not in self._under_way
        self._under_way.add(partition)
        batch = self._queues[partition][0]
        batch.attempts += 1
        if identity is not None and batch.identity != identity:
            # A new identity starts new sequences; a retry under the same one keeps its sequence.
            batch.identity = identity
            batch.base_sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = increment_sequence(batch.base_sequence, len(batch.records))
        return batch

    def requeue(self, batch: ProducerBatch, retry_at: float) -> None:
        """Keep a batch first in its queue, to be sent again from `retry_at` on."""
        batch.retry_at = retry_at
        self._under_way.discard(batch.partition)

    def finish(self, batch: ProducerBatch) -> bool:
        """Remove a batch that was acknowledged or failed; False if `clear` has removed it."""
        queue = self._queues.get(batch.partition)
        if not queue or queue[0] is not batch:
            return False
        queue.popleft()
        self._under_way.discard(batch.partition)
        self.buffered_bytes -= batch.size_bytes
        self.incomplete.difference_update(batch.futures)
        if not queue:
            del self._queues[batch.partition]
        return True

    def forget_sequences(self) -> None:
        """Reset the sequences of all partitions, for a new producer id."""
        self._sequences.clear()

    def expire(self, created_before: float) -> list[ProducerBatch]:
        """Remove batches created before this time, except those of partitions with a batch in
        flight, which may still succeed.
        """
        expired: list[ProducerBatch] = []
        for partition, queue in list(self._queues.items()):
            if partition in self._under_way:
                continue
            while queue and queue[0].created_at < created_before:
                expired.append(queue[0])
                self.finish(queue[0])
        return expired

    def clear(self) -> list[ProducerBatch]:
        """Remove all batches, in flight or not."""
        self._under_way.clear()
        return self.expire(float("inf"))

    def _ready_at(self, queue: deque[ProducerBatch]) -> float:
        first = queue[0]
        if first.attempts:
            return first.retry_at
        is_full = len(queue) > 1 or first.size_bytes >= self._batch_bytes
        return first.created_at + (0 if is_full or self._is_flushing else self._linger_seconds)
