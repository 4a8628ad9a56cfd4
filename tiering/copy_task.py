"""Copies the closed segments of one partition to the tier while this broker leads it (KIP-405).

    not ready -> where does the tier end? -> left-overs away -> next segment -> ... -> wait, again
                                                                    |
       COPY_SEGMENT_STARTED published and read back  ---------------+
       all parts stored, manifest last
       COPY_SEGMENT_FINISHED published and read back: only now does the segment count,
       and only now may the local copy go

The rules it keeps (Kafka's `RLMCopyTask`, and beyond it):

- Nothing happens before the metadata of the partition is complete (KAFKA-17980).
- Only closed segments wholly below the last stable offset are copied, in order, without a hole.
- A failed copy is deleted at once, with two updates of its metadata, and its id is never used
  again. If the tier cannot be reached the deletion comes before the next attempt instead, so an
  outage leaves one unfinished segment behind however long it lasts. The same goes for what a
  crashed broker or a former leader left unfinished.
- When a segment is stored but its COPY_SEGMENT_FINISHED could not be confirmed, the event may have
  been written: the segment is not deleted, the event is published again.
- Another leader may have taken over during the upload: leadership is looked at again before the
  segment is finished, and a segment that the state machine refused is deleted by who stored it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..clients.environment import Environment
from ..clients.errors import ErrorCode, KafkaError
from ..clients.topic_partition import TopicIdPartition
from ..storage.files import Files
from ..storage.log_segment import LogSegment
from ..storage.remote_lineage import LogBounds, copied_up_to, remote_log_start_offset
from ..storage.remote_log import RemoteLog
from ..storage.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from ..storage.unified_log import UnifiedLog
from .blocking_pool import BlockingPool
from .metadata_manager import RemoteLogMetadataManager
from .remote_storage import RemoteStorageError, RemoteStorageManager
from .segment_parts import Attempt, SegmentFacts, segment_data, segment_facts, segment_metadata
from .tier_statistics import TierStatistics

T = TypeVar("T")

_STATE = RemoteLogSegmentState


class CopyCancelledError(Exception):
    """This partition must not be copied again before its leadership changes."""


class CopyQuota(Protocol):
    """Waits until bytes may go to the tier."""

    async def take(self, nbytes: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTools:
    """What all copy tasks of a broker share."""

    broker_id: int
    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    environment: Environment
    files: Files
    pool: BlockingPool
    quota: CopyQuota
    statistics: TierStatistics
    custom_metadata_max_bytes: int


def bounds_of(log: UnifiedLog) -> LogBounds:
    """Where a log begins and ends now."""
    return LogBounds(log.log_start_offset, log.local_log_start_offset, log.log_end_offset)


class CopyTask:
    """The copying of one partition in one term of leadership."""

    def __init__(
        self,
        tools: CopyTools,
        partition: TopicIdPartition,
        log_of: Callable[[], UnifiedLog | None],
        is_leader: Callable[[], bool],
    ) -> None:
        self._tools = tools
        self._partition = partition
        self._log_of = log_of
        self._is_leader = is_leader
        self._knows_copied_offset = False
        self._stored: RemoteLogSegmentMetadataUpdate | None = None
        """The event that finishes a stored segment, until it is known to have been written."""

    async def run_once(self) -> int:
        """Copy what can be copied now; how many segments that was.

        Raises RemoteStorageError, KafkaError, CorruptIndexError or OSError to be tried again, and
        CopyCancelledError.
        """
        log = self._log_of()
        if log is None or log.topic_id != self._partition.topic_id:
            return 0
        if not log.config.remote_storage_enable or log.config.remote_log_copy_disable:
            return 0
        if not self._tools.metadata.is_ready(self._partition):
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"The remote log metadata of {self._partition.topic_partition} is not read yet",
            )
        remote = self._tools.metadata.remote_log(self._partition)
        await self._finish_stored(remote)
        await self._clean_up(remote)
        self._find_copied_offset(log, remote)
        return await self._copy_segments(log, remote)

    async def _copy_segments(self, log: UnifiedLog, remote: RemoteLog) -> int:
        copied = 0
        while self._is_leader() and not log.config.remote_log_copy_disable:
            from_offset = max(log.highest_remote_offset + 1, log.log_start_offset)
            candidates = log.copy_candidates(from_offset)
            if not candidates:
                break
            await self._copy(log, candidates[0], remote)
            copied += 1
        return copied

    def _find_copied_offset(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """On becoming leader, and when in doubt: where the log begins, how far the tier has it."""
        if self._knows_copied_offset:
            return
        history = log.leader_epochs.entries
        if log.log_start_offset < log.local_log_start_offset and len(remote):
            start = remote_log_start_offset(remote, history, log.local_log_start_offset)
            log.maybe_increment_log_start_offset(min(start, log.local_log_start_offset))
            history = log.leader_epochs.entries
        log.update_highest_remote_offset(copied_up_to(remote, history, bounds_of(log)))
        self._knows_copied_offset = True

    # -- One segment --------------------------------------------------------------------------

    async def _copy(self, log: UnifiedLog, segment: LogSegment, remote: RemoteLog) -> None:
        tools = self._tools
        facts = segment_facts(log, segment)
        await tools.quota.take(facts.log.nbytes)
        segment_id = RemoteLogSegmentId(self._partition, tools.environment.random_uuid())
        attempt = Attempt(segment_id, tools.broker_id, tools.environment.wall_clock_ms())
        metadata = segment_metadata(facts, attempt)
        tools.statistics.copy_began(self._partition.topic)
        await self._counted(tools.metadata.publish(metadata))
        custom = await self._store(metadata, facts)
        if not self._is_leader():
            await self._delete(metadata)
            return
        self._stored = self._update(metadata, _STATE.COPY_SEGMENT_FINISHED, custom)
        # Should this fail, the next run looks at the metadata to see whether it was written.
        self._knows_copied_offset = False
        await self._finish_stored(remote)
        self._knows_copied_offset = True
        log.update_highest_remote_offset(metadata.end_offset)
        tools.statistics.copied(self._partition.topic, metadata.segment_size_bytes)
        log.delete_old_segments(tools.environment.wall_clock_ms())

    async def _store(self, metadata: RemoteLogSegmentMetadata, facts: SegmentFacts) -> bytes | None:
        tools = self._tools
        try:
            data = await tools.pool.run(lambda: segment_data(tools.files, facts))
            custom = await self._counted(tools.storage.copy_log_segment_data(metadata, data))
        except RemoteStorageError as error:
            if not error.is_retriable:
                await self._delete(metadata)
            raise
        if custom is not None and len(custom) > tools.custom_metadata_max_bytes:
            await self._delete(metadata, custom)
            raise CopyCancelledError(
                f"The remote storage returned {len(custom)} bytes of custom metadata for a segment "
                f"of {self._partition.topic_partition}, more than "
                f"remote.log.metadata.custom.metadata.max.bytes={tools.custom_metadata_max_bytes} "
                f"allows: nothing of this partition is copied until its leader changes"
            )
        return custom

    async def _finish_stored(self, remote: RemoteLog) -> None:
        """Publish COPY_SEGMENT_FINISHED of a stored segment until it is known to be written."""
        stored = self._stored
        if stored is None:
            return
        await self._counted(self._tools.metadata.publish(stored))
        self._stored = None
        metadata = remote.segment(stored.segment_id.id)
        if metadata is None or metadata.state is not _STATE.COPY_SEGMENT_FINISHED:
            # Another leader has given the segment up. Its objects are ours to remove.
            await self._refused(stored, metadata)

    async def _refused(
        self, stored: RemoteLogSegmentMetadataUpdate, metadata: RemoteLogSegmentMetadata | None
    ) -> None:
        if metadata is not None:
            await self._delete(metadata, stored.custom_metadata)
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"The copied segment {stored.segment_id} was given up by another leader",
        )

    # -- Cleaning up --------------------------------------------------------------------------

    async def _clean_up(self, remote: RemoteLog) -> None:
        for metadata in remote.unfinished_segments():
            if not self._is_leader():
                return
            await self._delete(metadata)

    async def _delete(
        self, metadata: RemoteLogSegmentMetadata, custom: bytes | None = None
    ) -> None:
        """Take a segment through its deletion; raises if a step fails, to be taken up again."""
        tools = self._tools
        if metadata.state is not _STATE.DELETE_SEGMENT_STARTED:
            await tools.metadata.publish(
                self._update(metadata, _STATE.DELETE_SEGMENT_STARTED, custom)
            )
        known = metadata.updated(self._update(metadata, _STATE.DELETE_SEGMENT_STARTED, custom))
        await tools.storage.delete_log_segment_data(known)
        await tools.metadata.publish(self._update(metadata, _STATE.DELETE_SEGMENT_FINISHED))

    def _update(
        self,
        metadata: RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom: bytes | None = None,
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            segment_id=metadata.segment_id,
            event_timestamp_ms=self._tools.environment.wall_clock_ms(),
            state=state,
            broker_id=self._tools.broker_id,
            custom_metadata=custom,
        )

    async def _counted(self, operation: Awaitable[T]) -> T:
        try:
            return await operation
        except (RemoteStorageError, KafkaError):
            self._tools.statistics.copy_failed(self._partition.topic)
            raise
