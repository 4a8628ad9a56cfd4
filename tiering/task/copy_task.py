"""Copies the closed segments of one partition to the tier while this broker leads it (KIP-405).

    not ready -> where does the tier end? -> next segment -> ... -> left-overs away -> wait, again
                                                     |
       COPY_SEGMENT_STARTED published and read back -+
       all parts stored, manifest last
       COPY_SEGMENT_FINISHED published and read back: only now does the segment count,
       and only now may the local copy go

The rules it keeps (Kafka's `RLMCopyTask`, and beyond it):

- Nothing happens before the metadata of the partition is complete (KAFKA-17980).
- Only closed segments wholly below the last stable offset are copied, in order, without a hole,
  and only once they are on the disk.
- A failed copy is deleted at once, with two updates of its metadata, and its id is never used
  again. If the tier cannot be reached the deletion comes before the next attempt instead, so an
  outage leaves one unfinished segment behind however long it lasts.
- What a crashed broker or a former leader left unfinished is deleted after its records have been
  copied anew. It may be whole, and a local segment is damaged before anybody reads it: so one that
  replaces such a copy is checked first, each batch of it, and else nothing goes.
- When a segment is stored but its COPY_SEGMENT_FINISHED could not be confirmed, the event may have
  been written: the segment is not deleted, the event is published again.
- Another leader may have taken over during the upload: leadership is looked at again before the
  segment is finished, and a segment that the state machine refused is deleted by who stored it.
- Once copying is disabled no other segment is begun; one that is stored is finished (KIP-950).
"""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...clients.environment import Environment
from ...clients.errors import ErrorCode, KafkaError
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

T = TypeVar("T")

_log = logging.getLogger(__name__)

_STATE = RemoteLogSegmentState


class CopyCancelledError(Exception):
    """This partition must not be copied again before its leadership changes."""


class CopyQuota(Protocol):
    """Waits until bytes may go to the tier."""

    async def take(self, nbytes: int, is_wanted: Callable[[], bool]) -> bool:
        """True once they may go; False as soon as it is seen that nobody wants it any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTools:
    """What all copy tasks of a broker share."""

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


class CopyTask:
    """The copying of one partition in one term of leadership."""

    def __init__(self, tools: CopyTools, term: LeaderTerm) -> None:
        self._tools = tools
        self._term = term
        self._partition = term.partition
        self._metadata = tools.metadata
        self._environment = tools.environment
        self._statistics = tools.statistics
        self._repair = GapRepair(tools.deletion, term)
        self._attempts: set[Uuid] = set()
        """Copies that this task began and did not finish: what they hold was read here just now."""

    async def run_once(self) -> int:
        """Copy what can be copied now; how many segments that was.

        Raises RemoteStorageError, KafkaError, CorruptIndexError or OSError to be tried again, and
        CopyCancelledError.
        """
        log = self._term.log()
        if log is None or not log.is_tiered:
            return 0
        remote = ready_remote_log(self._metadata, self._partition)
        await self._finish_stored(remote)
        await self._repair.run_once(log, remote)
        if not log.config.copies_to_tier:
            self._statistics.set_copy_lag(log.topic_partition, 0, 0)
            return 0
        await self._clean_up(log, remote)
        self._term.find_copied_offset(log, remote)
        copied = await self._copy_segments(log, remote)
        if copied:
            await self._clean_up(log, remote)
        return copied

    async def _copy_segments(self, log: UnifiedLog, remote: RemoteLog) -> int:
        copied = 0
        while self._may_copy(log):
            self._tell_lag(log)
            from_offset = max(log.highest_remote_offset + 1, log.log_start_offset)
            candidates = log.copy_candidates(from_offset)
            if not candidates or not await self._copy(log, candidates[0], remote):
                break
            copied += 1
        return copied

    def _may_copy(self, log: UnifiedLog) -> bool:
        return self._term.is_current and log.config.copies_to_tier

    def _tell_lag(self, log: UnifiedLog) -> None:
        closed = [
            segment.size
            for segment in log.local.segments
            if segment is not log.local.active_segment
            and segment.base_offset > log.highest_remote_offset
        ]
        self._statistics.set_copy_lag(log.topic_partition, sum(closed), len(closed))

    # -- One segment --------------------------------------------------------------------------

    async def _copy(self, log: UnifiedLog, segment: LogSegment, remote: RemoteLog) -> bool:
        """False if it was not begun, because copying was disabled while it waited."""
        facts = segment_facts(log, segment)
        if not await self._tools.quota.take(facts.log.nbytes, lambda: self._may_copy(log)):
            return False
        await self._check_replacement(facts, remote)
        # Else a loss of power could cut the log below the end of what readers find in the tier.
        await self._tools.durability.sync(log, facts.end_offset + 1)
        environment = self._environment
        segment_id = RemoteLogSegmentId(self._partition, environment.random_uuid())
        broker_id = self._tools.deletion.broker_id
        attempt = Attempt(segment_id, broker_id, environment.wall_clock_ms())
        metadata = segment_metadata(facts, attempt)
        with self._term.holding(metadata.id), self._copying():
            await self._copy_as(metadata, facts, remote)
        log.update_highest_remote_offset(metadata.end_offset)
        self._statistics.copied(self._partition.topic, metadata.segment_size_bytes)
        _log.info("Copied to remote storage: %s", segment_words(metadata))
        log.delete_old_segments(environment.wall_clock_ms())
        return True

    async def _copy_as(
        self, metadata: RemoteLogSegmentMetadata, facts: SegmentFacts, remote: RemoteLog
    ) -> None:
        self._statistics.copy_began(self._partition.topic)
        self._attempts.add(metadata.id)
        await self._counted(self._metadata.publish(metadata))
        custom = await self._store(metadata, facts)
        if not self._term.is_current:
            await self._delete(metadata)
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self._partition.topic_partition} is not led here any more",
            )
        finished = self._tools.deletion.update(metadata, _STATE.COPY_SEGMENT_FINISHED, custom)
        self._term.copying.store(finished)
        # Should this fail, the next run publishes it again before anything else.
        await self._finish_stored(remote)
        self._term.copying.apply(CopyEvent.LOCATED)

    @contextmanager
    def _copying(self) -> Generator[None]:
        """A copy is on its way, until it is stored or has failed."""
        copying = self._term.copying
        copying.apply(CopyEvent.BEGUN)
        try:
            yield
        except CopyCancelledError:
            copying.apply(CopyEvent.REFUSED_FOR_GOOD)
            raise
        finally:
            if copying.state is CopyState.COPYING:
                copying.apply(CopyEvent.FAILED)

    async def _check_replacement(self, facts: SegmentFacts, remote: RemoteLog) -> None:
        """Raises KafkaError if the copy would replace another one's and the segment is damaged."""
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
            custom = await self._counted(storage.copy_log_segment_data(metadata, data))
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
        stored = self._term.copying.unconfirmed
        if stored is None:
            return
        await self._counted(self._metadata.publish(stored))
        self._term.copying.confirm()
        metadata = remote.segment(stored.segment_id.id)
        if metadata is None or metadata.state is not _STATE.COPY_SEGMENT_FINISHED:
            # Another leader has given the segment up. Its objects are ours to remove.
            await self._refused(stored, metadata)
        self._attempts.discard(stored.segment_id.id)

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

    async def _clean_up(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """Remove what copies have left; what retention has left below is expiration's.

        The records of a copy that is removed are in a finished segment, or were read here.
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
            await self._tools.deletion.delete(metadata, "a copy that was not finished", custom)
        self._attempts.discard(metadata.id)

    async def _counted(self, operation: Awaitable[T]) -> T:
        try:
            return await operation
        except (RemoteStorageError, KafkaError):
            self._statistics.copy_failed(self._partition.topic)
            raise
