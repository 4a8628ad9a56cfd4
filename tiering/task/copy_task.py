"""Copies the closed segments of one partition to the tier while this broker leads it (KIP-405).

    not ready -> find the tier's end -> copy next segment -> ... -> clean up -> wait, repeat
                                                     |
       COPY_SEGMENT_STARTED published and read back -+
       all parts stored, manifest last
       COPY_SEGMENT_FINISHED published and read back: only then is the segment readable,
       and only then may the local copy be deleted

Rules (Kafka's `RLMCopyTask`, and beyond it):

- Nothing happens before the metadata of the partition is complete (KAFKA-17980).
- Only closed segments wholly below the last stable offset are copied, in order, without gaps,
  and only once they are flushed to disk.
- A failed copy is deleted at once, with two metadata updates, and its id is never reused. If the
  tier is unreachable, it is deleted just before the next attempt instead, so an outage leaves one
  unfinished segment however long it lasts.
- A copy that a crashed broker or a former leader left unfinished is deleted after its records have
  been copied again. The unfinished copy may be complete while the local segment has damage that no
  read has met. So every batch of the local segment is checked first; if one is damaged, the
  unfinished copy is kept.
- When a segment is stored but its COPY_SEGMENT_FINISHED could not be confirmed, the event may have
  been written: the segment is not deleted, and the event is published again.
- Another leader may have taken over during the upload: leadership is checked again before the
  segment is finished. If the state machine refuses a segment, the broker that stored it deletes it,
  even if the metadata no longer mentions it.
- Once copying is disabled, no new copy is started; a stored segment is still finished (KIP-950).
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...storage.files import Files
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_retention import is_last_copy
from ...storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from ...storage.segment.log_segment import LogSegment
from ..blocking_pool import BlockingPool
from ..metadata.log_durability import LogDurability
from ..metadata.metadata_manager import RemoteLogMetadataManager
from ..reading.remote_batches import CorruptSegmentError
from ..remote_storage import RemoteStorageError, RemoteStorageManager
from ..tier_statistics import TierStatistics
from .copy_state import CopyEvent, CopyState
from .expiration_task import facts_of
from .gap_repair import GapRepair
from .in_flight import InFlight
from .leader_term import LeaderTerm, ready_remote_log
from .segment_deletion import SegmentDeletion, segment_words
from .segment_parts import (
    Attempt,
    SegmentFacts,
    check_batches,
    segment_data,
    segment_facts,
    segment_metadata,
)

if TYPE_CHECKING:
    from ...clients.kafka_uuid import Uuid

_log = logging.getLogger(__name__)

_STATE = RemoteLogSegmentState


class _CopyCancelledError(Exception):
    """This partition must not be copied again before its leadership changes."""


class CopyQuota(Protocol):
    """Limits the rate of uploads to the tier."""

    async def take(self, nbytes: int, is_wanted: Callable[[], bool]) -> bool:
        """Wait until `nbytes` may be uploaded; False once `is_wanted` returns False."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTools:
    """Dependencies that all copy tasks of a broker share."""

    deletion: SegmentDeletion
    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    environment: Environment
    statistics: TierStatistics
    files: Files
    pool: BlockingPool
    quota: CopyQuota
    custom_metadata_max_bytes: int
    durability: LogDurability
    in_flight: InFlight = field(default_factory=InFlight)


class CopyTask:
    """Copies one partition during one term of leadership."""

    def __init__(self, tools: CopyTools, term: LeaderTerm) -> None:
        self._tools = tools
        self._term = term
        self._partition = term.partition
        self._metadata = tools.metadata
        self._environment = tools.environment
        self._statistics = tools.statistics
        self._repair = GapRepair(tools.deletion, term)
        self._attempts: set[Uuid] = set()
        """Unfinished copies of this task. It has read their local segments, so they may be deleted
        without a check."""
        self._stored: RemoteLogSegmentMetadata | None = None
        """The last stored segment, whether its COPY_SEGMENT_FINISHED is confirmed or not."""
        self._abandoned: RemoteLogSegmentMetadata | None = None
        """A stored segment that another leader has abandoned; the metadata no longer has it."""

    async def run_once(self) -> int | None:
        """Copy what can be copied now; returns the number of segments, or None if copying has
        stopped until the leadership changes.

        Raises RemoteStorageError, KafkaError, CorruptIndexError or OSError, which the caller
        retries.
        """
        log = self._term.log()
        if log is None or not log.is_tiered:
            return 0
        remote = ready_remote_log(self._metadata, self._partition)
        await self._remove_abandoned()
        await self._finish_stored(remote)
        await self._repair.run_once(log, remote)
        if not log.config.copies_to_tier:
            self._statistics.set_copy_lag(log.topic_partition, 0, 0)
            return 0
        await self._clean_up(log, remote)
        self._term.find_copied_offset(log, remote)
        try:
            copied = await self._copy_segments(log, remote)
        except _CopyCancelledError as error:
            _log.error("Copying to the remote tier stopped: %s", error)
            return None
        if copied:
            await self._clean_up(log, remote)
        return copied

    async def _copy_segments(self, log: UnifiedLog, remote: RemoteLog) -> int:
        copied = 0
        while self._may_copy(log):
            self._report_lag(log)
            from_offset = max(log.highest_remote_offset + 1, log.log_start_offset)
            candidates = log.copy_candidates(from_offset)
            if not candidates or not await self._copy(log, candidates[0], remote):
                break
            copied += 1
        return copied

    def _may_copy(self, log: UnifiedLog) -> bool:
        return self._term.is_current and log.config.copies_to_tier

    def _report_lag(self, log: UnifiedLog) -> None:
        closed = [
            segment.size
            for segment in log.local.segments
            if segment is not log.local.active_segment
            and segment.base_offset > log.highest_remote_offset
        ]
        self._statistics.set_copy_lag(log.topic_partition, sum(closed), len(closed))

    async def _copy(self, log: UnifiedLog, segment: LogSegment, remote: RemoteLog) -> bool:
        """Copy one segment; False if copying was disabled while it waited for the quota."""
        facts = segment_facts(log, segment)
        if not await self._tools.quota.take(facts.log.nbytes, lambda: self._may_copy(log)):
            return False
        await self._check_replacement(facts, remote)
        # Otherwise a power loss could truncate the log below the end of what is in the tier.
        await self._tools.durability.sync(log, facts.end_offset + 1)
        environment = self._environment
        segment_id = RemoteLogSegmentId(self._partition, environment.random_uuid())
        broker_id = self._tools.deletion.broker_id
        attempt = Attempt(segment_id, broker_id, environment.wall_clock_ms())
        metadata = segment_metadata(facts, attempt)
        with self._term.holding(metadata.id), self._copying():
            self._statistics.copy_began(self._partition.topic)
            self._attempts.add(metadata.id)
            with self._failures_counted():
                await self._metadata.publish(metadata)
            custom = await self._store(metadata, facts)
            await self._publish_finished(metadata, custom, remote)
        log.bounds.update_highest_remote(metadata.end_offset)
        self._statistics.copied(self._partition.topic, metadata.segment_size_bytes)
        _log.info("Copied to remote storage: %s", segment_words(metadata))
        log.delete_old_segments(environment.wall_clock_ms())
        return True

    async def _publish_finished(
        self, metadata: RemoteLogSegmentMetadata, custom: bytes | None, remote: RemoteLog
    ) -> None:
        """Publish that a segment is stored, unless another broker leads the partition now."""
        if not self._term.is_current:
            await self._delete(metadata)
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker no longer leads {self._partition.topic_partition}",
            )
        finished = self._tools.deletion.update(metadata, _STATE.COPY_SEGMENT_FINISHED, custom)
        self._stored = metadata
        self._term.copying.store(finished)
        # If this fails, the next run publishes it again before anything else.
        await self._finish_stored(remote)
        self._term.copying.apply(CopyEvent.LOCATED)

    @contextmanager
    def _copying(self) -> Generator[None]:
        """Set the copy state to COPYING until the copy is stored or has failed."""
        copying = self._term.copying
        copying.apply(CopyEvent.BEGUN)
        try:
            yield
        except _CopyCancelledError:
            copying.apply(CopyEvent.REFUSED_FOR_GOOD)
            raise
        finally:
            if copying.state is CopyState.COPYING:
                copying.apply(CopyEvent.FAILED)

    async def _check_replacement(self, facts: SegmentFacts, remote: RemoteLog) -> None:
        """Raise KafkaError if an unfinished copy would be replaced by a damaged segment."""
        for other in remote.unfinished_segments():
            if (
                other.id not in self._attempts
                and other.start_offset <= facts.end_offset
                and facts.base_offset <= other.end_offset
            ):
                break
        else:
            return
        try:
            await self._tools.pool.run(lambda: check_batches(facts))
        except CorruptSegmentError as error:
            self._statistics.copy_failed(self._partition.topic)
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"The local segment {facts.base_offset:020d}.log of "
                f"{self._partition.topic_partition} is damaged ({error}) and is not copied; the "
                f"unfinished copy [{other.start_offset}, {other.end_offset}] in the remote tier, "
                "which may be whole, is kept",
            ) from error

    async def _store(self, metadata: RemoteLogSegmentMetadata, facts: SegmentFacts) -> bytes | None:
        tools, storage = self._tools, self._tools.storage
        try:
            data = await tools.pool.run(lambda: segment_data(tools.files, facts))
            with self._failures_counted(), tools.in_flight.uploading(metadata.id, data) as counted:
                custom = await storage.copy_log_segment_data(metadata, counted)
        except RemoteStorageError as error:
            if not error.is_retriable:
                await self._delete(metadata)
            raise
        if custom is not None and len(custom) > tools.custom_metadata_max_bytes:
            await self._delete(metadata, custom)
            raise _CopyCancelledError(
                f"The remote storage returned {len(custom)} bytes of custom metadata for a "
                f"segment of {self._partition.topic_partition}, which exceeds "
                f"remote.log.metadata.custom.metadata.max.bytes={tools.custom_metadata_max_bytes}: "
                "the partition is not copied until its leader changes"
            )
        return custom

    async def _finish_stored(self, remote: RemoteLog) -> None:
        """Publish a stored segment's COPY_SEGMENT_FINISHED if it is not confirmed yet."""
        stored = self._term.copying.unconfirmed
        if stored is None:
            return
        with self._failures_counted():
            await self._metadata.publish(stored)
        self._term.copying.confirm()
        metadata = remote.segment(stored.segment_id.id)
        if metadata is None or metadata.state is not _STATE.COPY_SEGMENT_FINISHED:
            # Another leader has abandoned the segment; this broker must delete its objects.
            await self._undo_refused(stored, metadata)
        self._attempts.discard(stored.segment_id.id)

    async def _undo_refused(
        self, stored: RemoteLogSegmentMetadataUpdate, metadata: RemoteLogSegmentMetadata | None
    ) -> None:
        if metadata is not None:
            await self._delete(metadata, stored.custom_metadata)
        elif self._stored is not None and self._stored.segment_id == stored.segment_id:
            # That leader deleted what it could see, before the upload had ended.
            self._abandoned = self._stored.updated(stored)
            await self._remove_abandoned()
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"The copied segment {stored.segment_id} was abandoned by another leader",
        )

    async def _remove_abandoned(self) -> None:
        """Delete the objects of a copy that was given up. Raises RemoteStorageError."""
        if self._abandoned is not None:
            await self._tools.storage.delete_log_segment_data(self._abandoned)
            self._abandoned = None

    async def _clean_up(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """Delete unfinished copies; those below the log start offset are left to expiration.

        A copy is deleted only if finished segments have its records, or if this task began it.
        """
        unfinished = remote.unfinished_segments()
        facts = facts_of(log, remote) if unfinished else None
        for metadata in unfinished:
            if not self._term.is_current or facts is None:
                return
            if (
                metadata.end_offset >= log.log_start_offset
                and metadata.id not in self._term.reserved
                and (metadata.id in self._attempts or not is_last_copy(remote, facts, metadata))
            ):
                await self._delete(metadata)

    async def _delete(
        self, metadata: RemoteLogSegmentMetadata, custom: bytes | None = None
    ) -> None:
        with self._term.holding(metadata.id):
            await self._tools.deletion.delete(metadata, "an unfinished copy", custom)
        self._attempts.discard(metadata.id)

    @contextmanager
    def _failures_counted(self) -> Generator[None]:
        try:
            yield
        except (RemoteStorageError, KafkaError):
            self._statistics.copy_failed(self._partition.topic)
            raise
