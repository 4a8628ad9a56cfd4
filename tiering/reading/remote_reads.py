"""Reads remote data: by offset for Fetch, by timestamp for ListOffsets.

    remote reads ------> reader pool -> reader -> index cache, chunk cache -> storage

If the tier is unreachable, a read fails with a retriable error for its partition alone. The error
is logged once, because clients retry silently. The number of running reads, how long others wait
for them and how many bytes a read holds are all bounded.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.log.fetch_data import RemoteRead, RemoteTimestampLookup
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...storage.segment.index import CorruptIndexError
from ...storage.segment.time_index import TimestampAndOffset
from ..config import RemoteLogManagerConfig
from ..quota import ByteRateQuota
from ..remote_storage import RemoteStorageError
from ..tier_access import TierAccess
from ..tier_statistics import TierStatistics
from .answer_memory import AnswerMemory
from .cache_counts import CacheCounts
from .chunk_cache import ChunkCache
from .read_troubles import ReadTroubles
from .reader_pool import NoTurnError, ReaderPool
from .remote_index_cache import RemoteIndexCache
from .remote_log_reader import ReadPreview, RemoteFetchResult, RemoteLogReader
from .remote_timestamp_reader import RemoteTimestampReader

_log = logging.getLogger(__name__)

_TROUBLE_SECONDS = 600.0
"""How long a partition's failure to read from the tier is not logged again."""


class RemoteReads:
    """Serves a broker's reads of remote data."""

    def __init__(
        self,
        config: RemoteLogManagerConfig,
        access: TierAccess,
        statistics: TierStatistics,
        log_of: Callable[[TopicPartition], UnifiedLog | None],
    ) -> None:
        self._metadata = access.metadata
        self._statistics = statistics
        self._log_of = log_of
        self.fetch_quota = ByteRateQuota(
            config.fetch_max_bytes_per_second,
            config.fetch_quota_samples,
            config.fetch_quota_sample_seconds,
        )
        self._indexes = RemoteIndexCache(
            access.storage,
            access.files,
            config.log_directory,
            config.index_cache_bytes,
            access.pool,
        )
        self._chunks = ChunkCache(access.storage, config.chunk_cache_bytes, config.chunk_bytes)
        self._reader = RemoteLogReader(self._indexes, self._chunks)
        self._timestamps = RemoteTimestampReader(self._indexes, self._chunks)
        self._index_cache_bytes = config.index_cache_bytes
        self._answers = AnswerMemory(config.chunk_cache_bytes)
        self._pool = ReaderPool(config.reader_threads, config.reader_max_pending)
        self._fetch_wait_s = config.fetch_max_wait_ms / 1000
        self._search_wait_s = config.list_offsets_timeout_ms / 1000
        self._next_warning: dict[TopicIdPartition, float] = {}
        self._troubles = ReadTroubles()

    @property
    def trouble(self) -> str:
        """Which reads fail at present, in a sentence; empty if none does."""
        return self._troubles.message(asyncio.get_running_loop().time())

    @property
    def threads(self) -> int:
        """How many reads may run at a time."""
        return self._pool.threads

    @property
    def waiting(self) -> int:
        """Reads that wait for a running one to end."""
        return self._pool.queue_size

    @property
    def idle_share(self) -> float:
        """The share of idle readers, from 0 to 1."""
        return self._pool.idle_share

    @property
    def chunk_counts(self) -> CacheCounts:
        """Hits and misses of the chunk cache."""
        return self._chunks.counts

    @property
    def index_counts(self) -> CacheCounts:
        """Hits and misses of the index cache."""
        return self._indexes.counts

    def preview(self, log: UnifiedLog, offset: int) -> ReadPreview | None:
        """What a fetch of a remote offset would read now; None if no segment has it."""
        if log.remote is None:
            return None
        return self._reader.preview(offset, log.remote, log.leader_epochs.entries)

    async def start(self) -> None:
        """Open the index cache. Never waits for the tier."""
        await self._indexes.start()

    async def stop(self) -> None:
        """Stop the background loads. Idempotent."""
        await self._chunks.stop()
        await self._indexes.stop()

    def limit(self, limits: RemoteLogManagerConfig) -> None:
        """Apply a new fetch rate, number of readers and wait times from now on."""
        self.fetch_quota.bytes_per_second = limits.fetch_max_bytes_per_second
        self._pool.threads = limits.reader_threads
        self._fetch_wait_s = limits.fetch_max_wait_ms / 1000
        self._search_wait_s = limits.list_offsets_timeout_ms / 1000

    async def resize_index_cache(self, max_bytes: int) -> None:
        """Change the size of the index cache, which may remove files."""
        if max_bytes != self._index_cache_bytes:
            self._index_cache_bytes = max_bytes
            await self._indexes.resize(max_bytes)

    def forget(self, partition: TopicIdPartition, segment_ids: Iterable[Uuid]) -> None:
        """Drop the cached chunks of a partition that has left this broker."""
        self._next_warning.pop(partition, None)
        self._troubles.forget(partition)
        for segment_id in segment_ids:
            self._chunks.forget(segment_id)

    @property
    def is_throttled(self) -> bool:
        """Whether reads exceed their quota (KIP-956); if so, the throttle time is recorded."""
        seconds = self.fetch_quota.throttle_seconds(asyncio.get_running_loop().time())
        if seconds > 0:
            self._statistics.fetch_throttled(seconds)
        return seconds > 0

    async def forget_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        """Drop everything cached of a segment that is being deleted."""
        self._chunks.forget(segment.id)
        await self._indexes.forget(segment)

    async def read(self, remote_read: RemoteRead) -> RemoteFetchResult:
        """Read the batches of a fetch from the tier. Raises KafkaError."""
        partition = remote_read.topic_id_partition
        loop = asyncio.get_running_loop()
        if self.is_throttled:
            # Throttled, not failed: the client fetches again after its fetch wait.
            return RemoteFetchResult(b"", [])
        self._statistics.fetch_began(partition.topic)
        try:
            log = self._readable_log(partition)
            remote = self._metadata.remote_log(partition)
            result = await self._pool.run(
                lambda: self._measure(self._read_bounded(remote_read, remote, log)),
                self._fetch_wait_s,
            )
        except NoTurnError:
            # Its fetch has already been answered, empty and without an error.
            return RemoteFetchResult(b"", [])
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                self._statistics.fetch_failed(partition.topic)
                self._log_failure(partition, error, remote_read.offset)
            else:
                self._troubles.worked(partition, remote_read.offset)
            raise
        self._troubles.worked(partition, remote_read.offset)
        self.fetch_quota.record(len(result.records), loop.time())
        self._statistics.fetched(partition.topic, len(result.records))
        return result

    async def _measure(
        self, read: Coroutine[object, object, RemoteFetchResult]
    ) -> RemoteFetchResult:
        """Record how long a read took, whether or not it failed."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await read
        finally:
            self._statistics.fetch_took(loop.time() - began)

    async def _read_bounded(
        self, request: RemoteRead, remote: RemoteLog, log: UnifiedLog
    ) -> RemoteFetchResult:
        """Read no more than the memory left by responses that clients have not received yet."""
        answers = self._answers
        granted = answers.reserve(min(request.max_bytes, self._chunks.chunk_bytes))
        read = request._replace(max_bytes=min(request.max_bytes, granted))
        try:
            result = await self._reader.read(read, remote, log)
        except BaseException:
            answers.give_back(granted)
            raise
        return replace(result, records=answers.answer(granted, result.records))

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        """The first record at or after the timestamp, tier first. Raises KafkaError."""
        partition = lookup.topic_id_partition
        log = self._readable_log(partition)
        remote = self._metadata.remote_log(partition)
        history, end = log.leader_epochs.entries, log.log_end_offset
        try:
            result = await self._pool.run(
                lambda: self._timestamps.find(lookup, remote, history, end), self._search_wait_s
            )
        except NoTurnError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "All readers of the remote tier are busy"
            ) from None
        except (RemoteStorageError, CorruptIndexError, OSError) as error:
            failure = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The remote tier cannot be searched now: {error}",
            )
            self._log_failure(partition, failure, lookup.starting_offset)
            raise failure from error
        self._troubles.worked(partition, lookup.starting_offset)
        return result if result is not None else lookup.local_result

    def _log_failure(self, partition: TopicIdPartition, error: KafkaError, offset: int) -> None:
        """Log a failure once in a while, because clients retry it silently."""
        now = asyncio.get_running_loop().time()
        if self._metadata.is_ready(partition):
            self._troubles.failed(partition, offset, error.message, now)
        due = self._next_warning.get(partition, now) <= now
        # After every start the metadata is not read yet; that is not worth a warning.
        if due and self._metadata.is_ready(partition):
            self._next_warning[partition] = now + _TROUBLE_SECONDS
            _log.warning(
                "%s. Consumers of the partition retry; other partitions are not affected.",
                error.message,
            )

    def _readable_log(self, partition: TopicIdPartition) -> UnifiedLog:
        """The local log of a partition. Raises KafkaError until its metadata is read."""
        log = self._log_of(partition.topic_partition)
        if log is None or log.topic_id != partition.topic_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker has no replica of {partition.topic_partition}",
            )
        if not self._metadata.is_ready(partition):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The remote log metadata of {partition.topic_partition} is not loaded yet",
            )
        return log
