"""A partition whose remote side is made by hand, batch by batch, for tests of the reader."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from struct import Struct

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.log.fetch_data import FetchIsolation, RemoteRead
from tierlog.storage.log.leader_epoch import EpochEntry, LeaderEpochCache
from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_log import Applied, RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.tiering.memory_tier import MemoryTier, StoredSegment
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.reading.chunk_cache import ChunkCache
from tierlog.tiering.reading.remote_index_cache import RemoteIndexCache
from tierlog.tiering.reading.remote_log_reader import RemoteFetchResult, RemoteLogReader
from tierlog.tiering.remote_storage import IndexType

PARTITION = TopicIdPartition(Uuid(b"topic id, 16 by."), "orders", 0)

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
TXN_ENTRY = Struct(">hqqqq")

Batch = tuple[int, int, int]
"""First offset, last offset, leader epoch."""


def batch_bytes(batch: Batch, value: bytes = b"value") -> bytes:
    """A batch of one record per offset; the value is told apart by its epoch."""
    first, last, epoch = batch
    records = [
        Record(offset, offset * 10, None, b"%d/%d " % (offset, epoch) + value, ())
        for offset in range(first, last + 1)
    ]
    return bytes(build_batch(records, base_offset=first, leader_epoch=epoch))


class RemotePartition:
    """The tier, the metadata, and just as much of a local log as a reader asks for."""

    def __init__(self, history: list[tuple[int, int]], chunk_bytes: int = 4096) -> None:
        self.files = SimulatedFiles(SimulatedDisk())
        self.files.mkdirs("/data")
        self.tier = MemoryTier()
        self.remote = RemoteLog(PARTITION)
        self.log_start_offset = 0
        self.local_aborted: list[AbortedTxn] = []
        self.leader_epochs = LeaderEpochCache(self.files, "/data/epochs")
        self.leader_epochs.replace([EpochEntry(*entry) for entry in history])
        pool = ThreadedPool(1, "test")
        self.indexes = RemoteIndexCache(self.tier, self.files, "/data", 1 << 20, pool)
        self.chunks = ChunkCache(self.tier, 1 << 20, chunk_bytes)
        self.reader = RemoteLogReader(self.indexes, self.chunks)
        self._made = 0

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        return [
            txn
            for txn in self.local_aborted
            if txn.last_offset >= start_offset and txn.first_offset < upper_bound
        ]

    def add(
        self,
        batches: list[Batch],
        *,
        end_offset: int | None = None,
        aborted: list[AbortedTxn] | None = None,
        value: bytes = b"value",
        number: int | None = None,
    ) -> RemoteLogSegmentMetadata:
        """Put a finished segment into the tier; its epochs are those of its batches."""
        self._made += 1
        log, index, times = b"", b"", b""
        start = batches[0][0]
        epochs: dict[int, int] = {}
        for batch in batches:
            epochs.setdefault(batch[2], batch[0])
            if log:
                index += OFFSET_ENTRY.pack(batch[1] - start, len(log))
            times += TIME_ENTRY.pack(batch[1] * 10, batch[1] - start)
            log += batch_bytes(batch, value)
        metadata = segment_metadata(
            number or self._made,
            size=len(log),
            offsets=(start, batches[-1][1] if end_offset is None else end_offset),
            epochs=tuple(epochs.items()),
            partition=PARTITION,
            txn_index_empty=aborted is None,
        )
        indexes = {IndexType.OFFSET: index, IndexType.TIMESTAMP: times}
        if aborted:
            indexes[IndexType.TRANSACTION] = b"".join(TXN_ENTRY.pack(0, *txn) for txn in aborted)
        self.tier.segments[metadata.id] = StoredSegment(metadata, log, indexes)
        assert self.remote.apply_copy_started(metadata) is Applied.YES
        assert self.move(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED) is Applied.YES
        return metadata

    def move(self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> Applied:
        """Change a segment's state."""
        return self.remote.apply_update(
            RemoteLogSegmentMetadataUpdate(
                segment_id=metadata.segment_id, event_timestamp_ms=1, state=state, broker_id=0
            )
        )

    def request(self, offset: int, max_bytes: int = 1 << 20) -> RemoteRead:
        """A read of the epoch that the history gives the offset."""
        return RemoteRead(
            PARTITION,
            offset,
            epoch_of_offset(self.leader_epochs.entries, offset),
            max_bytes,
            FetchIsolation.HIGH_WATERMARK,
            True,
            1000,
            1000,
            self.log_start_offset,
            1000,
        )

    async def read(self, read: RemoteRead) -> RemoteFetchResult:
        """What the reader answers."""
        return await self.reader.read(read, self.remote, self)

    async def stop(self) -> None:
        """End what runs in the background."""
        await self.chunks.stop()
        await self.indexes.stop()


@asynccontextmanager
async def remote_partition(history: list[tuple[int, int]]) -> AsyncGenerator[RemotePartition]:
    """A partition of which nothing is in the tier yet; `history` is that of its leader epochs."""
    partition = RemotePartition(history)
    await partition.indexes.start()
    yield partition
    await partition.stop()
