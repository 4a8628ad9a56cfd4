"""Finds segments of a log that are in the tier but that the metadata has lost.

    a gap below the local log?  -- no --> nothing to do
        | yes
    which copies in the store are complete?
        |
    for those that hold records of a gap: COPY_SEGMENT_STARTED if it is missing, then
    COPY_SEGMENT_FINISHED

Lost metadata causes a gap (`storage/remote/log_gaps.py`): a power cut that kept the start event of
a copy and lost its finish event, or a deleted metadata topic. The objects are still there, and they
are the only copy. So the leader looks once a term, before it cleans up, expires or moves the log
start.
It leaves incomplete copies alone.
"""

import logging
from dataclasses import replace

from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.log_gaps import log_has_gap, segments_in_gaps
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from ..remote_storage import SegmentInventory
from .leader_term import LeaderTerm, bounds_of
from .segment_deletion import SegmentDeletion

_log = logging.getLogger(__name__)

_STATE = RemoteLogSegmentState


class GapRepair:
    """Finds lost copies of one partition in one term of leadership."""

    def __init__(self, deletion: SegmentDeletion, term: LeaderTerm) -> None:
        self._deletion = deletion
        self._term = term

    async def run_once(self, log: UnifiedLog, remote: RemoteLog) -> None:
        """Repair gaps, once a term. Raises RemoteStorageError or KafkaError to be retried."""
        async with self._term.repairing:
            if not self._term.is_repaired:
                await self._repair(log, remote)
                self._term.is_repaired = True

    async def _repair(self, log: UnifiedLog, remote: RemoteLog) -> None:
        storage = self._deletion.storage
        if not self._has_gap(log, remote) or not isinstance(storage, SegmentInventory):
            return
        for segment in await self._lost_segments(log, remote, storage):
            await self._find_again(segment, remote)
        self._term.store_was_searched = True

    @staticmethod
    def _has_gap(log: UnifiedLog, remote: RemoteLog) -> bool:
        return log_has_gap(remote, log.leader_epochs.entries, bounds_of(log))

    async def _lost_segments(
        self, log: UnifiedLog, remote: RemoteLog, storage: SegmentInventory
    ) -> list[RemoteLogSegmentMetadata]:
        reserved = self._term.reserved
        stored = [
            segment
            for segment in await storage.whole_segments(self._term.partition)
            if segment.id not in reserved and _may_be_finished(segment, remote)
        ]
        return segments_in_gaps(stored, remote, log.leader_epochs.entries, bounds_of(log))

    async def _find_again(self, segment: RemoteLogSegmentMetadata, remote: RemoteLog) -> None:
        if not self._term.is_current:
            return
        metadata, deletion = self._deletion.metadata, self._deletion
        with self._term.holding(segment.id):
            if remote.segment(segment.id) is None:
                now_ms = deletion.environment.wall_clock_ms()
                await metadata.publish(
                    replace(segment, broker_id=deletion.broker_id, event_timestamp_ms=now_ms)
                )
            await metadata.publish(deletion.update(segment, _STATE.COPY_SEGMENT_FINISHED))
        _log.warning(
            "Found the remote segment [%d, %d] of %s complete in the tier, but not finished in "
            "the metadata: using it",
            segment.start_offset,
            segment.end_offset,
            segment.topic_id_partition.topic_partition,
        )


def _may_be_finished(segment: RemoteLogSegmentMetadata, remote: RemoteLog) -> bool:
    metadata = remote.segment(segment.id)
    return metadata is None or metadata.state is _STATE.COPY_SEGMENT_STARTED
