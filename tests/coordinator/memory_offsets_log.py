"""`__consumer_offsets` in memory: what the coordinator would find on a replica."""

import asyncio

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.coordinator.offsets_log import Appended


class MemoryOffsetsLog:
    """Keeps batches. `delay_s` makes appends wait; `refuse` makes them fail.

    The high watermark is the end, or `replicated_to`.
    """

    def __init__(self) -> None:
        self.partitions: dict[int, bytearray] = {}
        self.delay_s = 0.0
        self.refuse = ErrorCode.NONE
        self.unreadable: set[int] = set()
        self.replicated_to: int | None = None
        self.waiting: list[tuple[int, int, asyncio.Future[ErrorCode]]] = []

    def append(self, partition: int, batch: bytearray) -> Appended | asyncio.Future[Appended]:
        """Append now; tell of it now or later."""
        outcome = Appended(self.refuse) if self.refuse else self._append(partition, batch)
        if not self.delay_s:
            return outcome
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()
        loop.call_later(self.delay_s, future.set_result, outcome)
        return future

    def _append(self, partition: int, batch: bytearray) -> Appended:
        _, end = self.offsets(partition)
        RecordBatch(memoryview(batch)).assign(end, 0)
        self.partitions.setdefault(partition, bytearray()).extend(batch)
        return Appended(ErrorCode.NONE, end)

    def offsets(self, partition: int) -> tuple[int, int]:
        if partition in self.unreadable:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
        end = 0
        for batch in batches(bytes(self.partitions.get(partition, b""))):
            end = batch.next_offset
        return 0, end

    def high_watermark(self, partition: int) -> int:
        _, end = self.offsets(partition)
        return end if self.replicated_to is None else self.replicated_to

    def when_replicated(self, partition: int, offset: int) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Now, or when `replicate` has come to `offset`."""
        if self.high_watermark(partition) >= offset:
            return ErrorCode.NONE
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.waiting.append((partition, offset, future))
        return future

    def replicate(self, end: int | None) -> None:
        """Move the high watermark; None: to the end, for good."""
        self.replicated_to = end
        for waiting in list(self.waiting):
            partition, offset, future = waiting
            if self.high_watermark(partition) >= offset or future.done():
                self.waiting.remove(waiting)
                if not future.done():
                    future.set_result(ErrorCode.NONE)

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        """From the batch that holds `offset`, at least one batch, within the size."""
        found = bytearray()
        for batch in batches(bytes(self.partitions.get(partition, b""))):
            if batch.last_offset >= offset:
                if found and len(found) + batch.size_in_bytes > max_bytes:
                    break
                found += batch.view
        return bytes(found)
