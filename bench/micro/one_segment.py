"""One segment in an in-memory tier, with the broker's reader and caches in front of it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from struct import Struct

from ...clients.kafka_uuid import Uuid
from ...clients.record.batch import Record
from ...clients.record.builder import build_batch
from ...clients.topic_partition import TopicIdPartition
from ...storage.files import OsFiles
from ...storage.log.fetch_data import FetchIsolation, RemoteRead
from ...storage.log.leader_epoch import EpochEntry, LeaderEpochCache
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from ...storage.segment.transaction_index import AbortedTxn
from ...tiering.blocking_pool import ThreadedPool
from ...tiering.reading.chunk_cache import ChunkCache
from ...tiering.reading.remote_index_cache import RemoteIndexCache
from ...tiering.reading.remote_log_reader import RemoteFetchResult, RemoteLogReader
from ...tiering.remote_storage import LogSegmentData, SegmentBytes
from ...tiering.store.fsspec_storage import FsspecStorage
from ...tiering.store.remote_url import RemoteUrl

PARTITION = TopicIdPartition(Uuid(b"topic id, 16 by."), "bench", 0)
BATCHES = 256
_BATCH_BYTES = 16 << 10
_MEBIBYTE = 1 << 20
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class _Bytes:
    """A segment file's bytes, held in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def nbytes(self) -> int:
        return len(self._content)

    def slice(self, offset: int, size: int) -> SegmentBytes:
        return _Bytes(self._content[offset : offset + size])

    def read(self) -> bytes:
        return self._content


def _segment() -> tuple[RemoteLogSegmentMetadata, LogSegmentData]:
    log, offsets, times = b"", b"", b""
    for offset in range(BATCHES):
        if log:
            offsets += _OFFSET_ENTRY.pack(offset, len(log))
        times += _TIME_ENTRY.pack(offset, offset)
        record = Record(offset, offset, None, bytes(_BATCH_BYTES))
        log += build_batch([record], base_offset=offset, leader_epoch=0)
    metadata = RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, Uuid(bytes(15) + b"\x01")),
        start_offset=0,
        end_offset=BATCHES - 1,
        max_timestamp_ms=BATCHES - 1,
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_bytes=len(log),
        segment_leader_epochs=((0, 0),),
        txn_index_empty=True,
    )
    data = LogSegmentData(
        log_segment=_Bytes(log),
        offset_index=offsets,
        time_index=times,
        transaction_index=None,
        producer_snapshot=b"",
        leader_epoch_index=b"0\n1\n0 0\n",
    )
    return metadata, data


class OneSegment:
    """The part of a log that a remote read uses, for a log without local data."""

    log_start_offset = 0

    def __init__(self, directory: str, storage: FsspecStorage, pool: ThreadedPool) -> None:
        files = OsFiles()
        self.leader_epochs = LeaderEpochCache(files, f"{directory}/leader-epoch-checkpoint")
        self.leader_epochs.replace([EpochEntry(0, 0)])
        self.remote = RemoteLog(PARTITION)
        self._indexes = RemoteIndexCache(storage, files, directory, _MEBIBYTE, pool)
        self._chunks = ChunkCache(storage, 64 * _MEBIBYTE, 4 * _MEBIBYTE)
        self._reader = RemoteLogReader(self._indexes, self._chunks)

    def aborted_transactions(self, start_offset: int, upper_bound: int) -> list[AbortedTxn]:
        return []

    async def start(self) -> None:
        await self._indexes.start()

    async def read(self, offset: int) -> RemoteFetchResult:
        """Read at most a mebibyte from the offset on."""
        read = RemoteRead(
            PARTITION,
            offset,
            0,
            _MEBIBYTE,
            FetchIsolation.HIGH_WATERMARK,
            True,
            BATCHES,
            BATCHES,
            0,
            BATCHES,
        )
        return await self._reader.read(read, self.remote, self)

    async def stop(self) -> None:
        await self._chunks.stop()
        await self._indexes.stop()


@asynccontextmanager
async def one_segment(directory: str) -> AsyncGenerator[OneSegment]:
    """Copy the segment to the tier, and mark it as copied."""
    pool = ThreadedPool(1, "bench")
    storage = FsspecStorage(RemoteUrl("memory://tierlog-bench"), OsFiles(), pool)
    metadata, data = _segment()
    await storage.copy_log_segment_data(metadata, data)
    log = OneSegment(directory, storage, pool)
    log.remote.apply_copy_started(metadata)
    finished = RemoteLogSegmentMetadataUpdate(
        segment_id=metadata.segment_id,
        event_timestamp_ms=2,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=1,
    )
    log.remote.apply_update(finished)
    await log.start()
    yield log
    await log.stop()
    await storage.close()
    pool.stop()
