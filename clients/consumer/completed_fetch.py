"""The fetched data of one partition, decoded into records on demand.

The broker sends whole batches, so the first may begin before the fetch offset. The consumer does
not return control records or, under read_committed, records of aborted transactions; its position
moves past them. The response lists the aborted transactions by producer id and first offset
(KIP-98); each ends at that producer's next abort marker.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import NamedTuple, cast

from ..errors import ErrorCode, KafkaError
from ..protocol.messages.fetch import PartitionData
from ..record.batch import RecordBatch, TimestampType, batches
from ..record.control import ControlRecordType
from ..record.layout import BATCH_OVERHEAD, LOG_OVERHEAD
from ..topic_partition import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record as returned to a consumer; the timestamp is in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = -1
    timestamp_type: TimestampType = TimestampType.CREATE_TIME


_OFFSETS = Struct(">qi11xi")
"""The header fields that determine a batch's offsets: base offset, length, last offset delta."""
_BASE_OFFSET = Struct(">q")


class UndecodableRecordsError(KafkaError):
    """A batch from the broker is damaged, or holds records that cannot be decoded.

    Like Kafka's `RecordDeserializationException`: to continue, seek to `next_offset`.
    """

    def __init__(
        self, code: ErrorCode, reason: str, partition: TopicPartition, offset: int, next_offset: int
    ) -> None:
        super().__init__(
            code,
            f"The records of {partition} at offset {offset} cannot be decoded: {reason} "
            f"Seek to offset {next_offset} to continue after them.",
        )
        self.reason = reason
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class CompletedFetch:
    """The records of one partition in one response, taken a few at a time."""

    def __init__(
        self, partition: TopicPartition, fetch_offset: int, data: PartitionData, *, check_crcs: bool
    ) -> None:
        self.partition = partition
        # The consumer's position after the records taken so far.
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
        self._failure: UndecodableRecordsError | None = None
        self._high_watermark = data.high_watermark
        # A decoded response holds views of the received bytes.
        records = cast("memoryview | None", data.records)
        self._records = self._read(records if records is not None else memoryview(b""))

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """The next records, at most `max_records`.

        Once all records before undecodable bytes are taken, this and every later call raises
        `UndecodableRecordsError`.
        """
        records = [] if self._failure is not None else list(islice(self._records, max_records))
        if self._failure is not None and not records:
            raise self._failure
        self.is_drained = self._failure is None and len(records) < max_records
        return records

    def _read(self, data: memoryview) -> Iterator[ConsumerRecord]:
        topic, partition = self.partition
        consumed = expected = 0
        try:
            for batch in batches(data):
                after = consumed + batch.size_in_bytes
                if self._check_crcs and self._is_misplaced(batch, expected, data, after):
                    consumed = after
                    continue
                expected = batch.next_offset
                if batch.next_offset > self.next_offset:
                    if self._check_crcs:
                        batch.ensure_valid()
                    epoch = batch.partition_leader_epoch
                    stamped = batch.timestamp_type
                    if not self._is_hidden(batch):
                        for offset, timestamp, key, value, headers in batch.records():
                            if offset >= self.next_offset:
                                self.next_offset = offset + 1
                                self.last_epoch = epoch
                                yield ConsumerRecord(
                                    topic,
                                    partition,
                                    offset,
                                    timestamp,
                                    key,
                                    value,
                                    headers,
                                    epoch,
                                    stamped,
                                )
                    self.next_offset = batch.next_offset
                    self.last_epoch = epoch
                consumed = after
        except KafkaError as error:
            offset = self.next_offset
            next_offset = max(offset + 1, self._end_of_batch(data[consumed:]))
            self._failure = UndecodableRecordsError(
                error.code, error.message, self.partition, offset, next_offset
            )

    def _is_misplaced(
        self, batch: RecordBatch, expected: int, data: memoryview, after: int
    ) -> bool:
        """Whether a batch has a wrong base offset and ends before the consumer's position.

        The CRC does not cover the base offset, so the base offset is compared with the adjacent
        batches and the high watermark. Raises KafkaError if the base offset is wrong and the batch
        may hold the next record.
        """
        if batch.last_offset_delta < 0:
            batch.ensure_valid()
        following, begin = _base_offset(data, after), batch.base_offset
        is_contradicted = following is not None and following < batch.next_offset
        # A wrong base offset can mislead the broker's offset lookup, so that the response begins
        # with the batch before the fetch offset.
        is_before = not expected and begin < self.next_offset == following
        nearest = max(expected, self.next_offset)
        # Kafka takes the high watermark of its answer before it reads: what was appended meanwhile
        # follows without a gap.
        is_beyond = begin != nearest and 0 < self._high_watermark <= batch.last_offset
        if not (
            begin < expected or is_beyond or (is_contradicted and (is_before or begin > nearest))
        ):
            return False
        if following is not None and following <= self.next_offset:
            return True
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Their batch has the impossible base offset {begin}.",
        )

    def _end_of_batch(self, data: memoryview) -> int:
        """The offset after a batch, from its own header or from the batch that follows."""
        if len(data) < _OFFSETS.size:
            return -1
        base_offset, length, last_offset_delta = _OFFSETS.unpack_from(data)
        claimed = base_offset + last_offset_delta + 1
        following = _base_offset(data, LOG_OVERHEAD + length) if length > 0 else None
        limit = self._high_watermark if self._high_watermark > 0 else claimed
        ends = [end for end in (claimed, following or 0) if self.next_offset < end <= limit]
        return int(min(ends, default=min(self.next_offset + last_offset_delta + 1, limit)))

    def _is_hidden(self, batch: RecordBatch) -> bool:
        """Follow the aborted transactions up to this batch; returns whether it belongs to one of
        them or is a control batch.
        """
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborted_producers.add(self._aborted.popleft()[1])
        if batch.is_control:
            if batch.control_type() is ControlRecordType.ABORT:
                self._aborted_producers.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborted_producers


def _base_offset(data: memoryview, position: int) -> int | None:
    """The base offset of the batch at a position; None if there is no batch."""
    if len(data) - position < BATCH_OVERHEAD:
        return None
    (offset,) = _BASE_OFFSET.unpack_from(data, position)
    return int(offset)
