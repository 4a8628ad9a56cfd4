"""Reads of what only the tier has: by offset for fetches, by time for ListOffsets.

    remote reads ------> reader pool -> reader -> index cache, chunk cache -> storage

A read of a tier that cannot be reached is a retriable error of its partition and of no other. It
is said once, in plain words, because clients try again without any. How many reads are under way,
how long others wait for them and how much one of them holds is bounded.
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
from .reader_pool import NoTurnError, ReaderPool
from .remote_index_cache import RemoteIndexCache
from .remote_log_reader import RemoteFetchResult, RemoteLogReader
from .remote_timestamp_reader import RemoteTimestampReader

_log = logging.getLogger(__name__)

_TROUBLE_SECONDS = 600.0
"""How long a partition that cannot be read from the tier is not logged again."""


class RemoteReads:
    """See the top of this file."""

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
        self._trouble_told: dict[TopicIdPartition, float] = {}

    @property
    def threads(self) -> int:
        """Reads that run at a time."""
        return self._pool.threads

    @property
    def waiting(self) -> int:
        """Reads that wait for one of those under way to end."""
        return self._pool.queue_size

    @property
    def idle_share(self) -> float:
        """How many of the reads that may run at a time do not, from 0 to 1."""
        return self._pool.idle_share

    @property
    def chunk_counts(self) -> CacheCounts:
        """How often a piece of a segment was in memory."""
        return self._chunks.counts

    @property
    def index_counts(self) -> CacheCounts:
        """How often a segment's indexes were on disk and open."""
        return self._indexes.counts

    async def start(self) -> None:
        """Find what the index cache has kept. Never waits for the tier."""
        await self._indexes.start()

    async def stop(self) -> None:
        """End what runs in the background. Idempotent."""
        await self._chunks.stop()
        await self._indexes.stop()

    def limit(self, limits: RemoteLogManagerConfig) -> None:
        """Let the rate, the number of readers and how long reads wait hold from now on."""
        self.fetch_quota.bytes_per_second = limits.fetch_max_bytes_per_second
        self._pool.threads = limits.reader_threads
        self._fetch_wait_s = limits.fetch_max_wait_ms / 1000
        self._search_wait_s = limits.list_offsets_timeout_ms / 1000

    async def resize_index_cache(self, max_bytes: int) -> None:
        """Let the index cache be of this size, which may take the removal of files."""
        if max_bytes != self._index_cache_bytes:
            self._index_cache_bytes = max_bytes
            await self._indexes.resize(max_bytes)

    def forget(self, partition: TopicIdPartition, segment_ids: Iterable[Uuid]) -> None:
        """A partition is not here any more, and nothing need be kept of its segments."""
        self._trouble_told.pop(partition, None)
        for segment_id in segment_ids:
            self._chunks.forget(segment_id)

    @property
    def is_throttled(self) -> bool:
        """Whether reads have taken more than their quota (KIP-956); counted when they have."""
        seconds = self.fetch_quota.throttle_seconds(asyncio.get_running_loop().time())
        if seconds > 0:
            self._statistics.fetch_throttled(seconds)
        return seconds > 0

    async def forget_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        """A segment is being deleted: nothing need be kept of it."""
        self._chunks.forget(segment.id)
        await self._indexes.forget(segment)

    async def read(self, remote_read: RemoteRead) -> RemoteFetchResult:
        """The batches that a fetch wants from the tier. Raises KafkaError."""
        partition = remote_read.topic_id_partition
        loop = asyncio.get_running_loop()
        if self.is_throttled:
            # Throttled, not failed: the client asks again after its fetch wait.
            return RemoteFetchResult(b"", [])
        self._statistics.fetch_began(partition.topic)
        try:
            log = self._readable_log(partition)
            remote = self._metadata.remote_log(partition)
            result = await self._pool.run(
                lambda: self._timed(self._read_bounded(remote_read, remote, log)),
                self._fetch_wait_s,
            )
        except NoTurnError:
            # Its fetch has been answered: empty, without an error.
            return RemoteFetchResult(b"", [])
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                self._statistics.fetch_failed(partition.topic)
                self._failed(partition, error)
            raise
        self.fetch_quota.record(len(result.records), loop.time())
        self._statistics.fetched(partition.topic, len(result.records))
        return result

    async def _timed(self, read: Coroutine[object, object, RemoteFetchResult]) -> RemoteFetchResult:
        """Have it counted how long a read took, whatever came of it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await read
        finally:
            self._statistics.fetch_took(loop.time() - began)

    async def _read_bounded(
        self, request: RemoteRead, remote: RemoteLog, log: UnifiedLog
    ) -> RemoteFetchResult:
        """Read as much as the answers that clients have not taken yet leave room for."""
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
        """The first record of a log that is as young, tier first. Raises KafkaError."""
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
            self._failed(partition, failure)
            raise failure from error
        return result if result is not None else lookup.local_result

    def _failed(self, partition: TopicIdPartition, error: KafkaError) -> None:
        """Clients try again without a word, so nobody would learn of it; one line tells it here."""
        now = asyncio.get_running_loop().time()
        due = self._trouble_told.get(partition, now) <= now
        # That its metadata is not read yet is how every start begins.
        if due and self._metadata.is_ready(partition):
            self._trouble_told[partition] = now + _TROUBLE_SECONDS
            _log.warning("%s. Its consumers try again; others are not affected.", error.message)

    def _readable_log(self, partition: TopicIdPartition) -> UnifiedLog:
        """The local side of a partition. Raises KafkaError while its metadata is not known."""
        log = self._log_of(partition.topic_partition)
        if log is None or log.topic_id != partition.topic_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.topic_partition} is not here"
            )
        if not self._metadata.is_ready(partition):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The remote log metadata of {partition.topic_partition} is not read yet",
            )
        return log
