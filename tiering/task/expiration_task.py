"""Applies retention to both tiers of one partition while this broker leads it (KIP-405).

    not ready -> find the tier's end -> pick segments -> raise log start offset -> delete segments

`storage/remote/remote_retention.py` decides which segments may be deleted. The rules here (Kafka's
`RLMExpirationTask`):

- Nothing expires before the metadata is complete (KAFKA-17980) and before this term of leadership
  knows up to which offset the log was copied (KAFKA-20732).
- The log start offset is raised before anything is deleted, so that a reader of a deleted segment
  gets OFFSET_OUT_OF_RANGE and not a storage error (KAFKA-15352).
- A segment that cannot be deleted does not block the others; it is retried in the next run, as are
  segments that an earlier leader left half deleted. When several fail in a row, because the tier
  is unreachable or denies deletions, the run ends: the rest would fail as well, and each is a
  request and a log line. The next run begins with those that were not tried.
- Leadership is checked before each segment.
- Expiration goes on when copying is disabled or has failed permanently (KIP-950).
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ...storage.config import LogConfig
from ...storage.log.unified_log import UnifiedLog
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_retention import (
    DeleteReason,
    Exempt,
    ExpiredSegment,
    LineageSize,
    LogFacts,
    RetentionDecision,
    RetentionLimits,
    decide_retention,
    local_only_bytes,
)
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from ..metadata.metadata_events import METADATA_TOPIC
from ..remote_storage import RemoteStorageError
from .copy_state import CopyState
from .gap_repair import GapRepair
from .leader_term import LeaderTerm, ready_remote_log
from .segment_deletion import SegmentDeletion, segment_words

if TYPE_CHECKING:
    from ...clients.kafka_uuid import Uuid

_log = logging.getLogger(__name__)

_FAILURES_IN_A_ROW_MAX = 3

_BREACHES = {
    DeleteReason.LOG_START: "log-start-offset {start} breach",
    DeleteReason.TIME: "retention time {ms}ms breach based on the largest record timestamp in the "
    "segment, {timestamp}",
    DeleteReason.SIZE: "retention size {nbytes} breach",
}


_REASONS_WITHOUT_READERS = frozenset({DeleteReason.DEAD_LINEAGE, DeleteReason.UNFINISHED})
"""Reasons to delete a segment that no reader is sent to, whatever its offsets."""


def _is_below_log_start(segment: RemoteLogSegmentMetadata, log: UnifiedLog | None) -> bool:
    """Whether a segment is below the log start offset; also True if the log itself is gone."""
    return log is None or segment.end_offset < log.log_start_offset


class ExpirationTask:
    """Expires segments of one partition during one term of leadership."""

    def __init__(self, deletion: SegmentDeletion, term: LeaderTerm) -> None:
        self._deletion = deletion
        self._term = term
        self._repair = GapRepair(deletion, term)
        self._size: LineageSize | None = None
        self._withheld: set[Uuid] = set()
        self._failed: set[Uuid] = set()
        """Segments whose deletion has failed, until each of the others had its turn."""

    async def run_once(self) -> int:
        """Delete the segments that may go now; returns how many were deleted.

        Raises RemoteStorageError or KafkaError, which the caller retries.
        """
        term = self._term
        log = term.log()
        if log is None or not log.is_tiered:
            return 0
        remote = ready_remote_log(self._deletion.metadata, term.partition)
        if not term.copying.is_settled:
            # COPY_SEGMENT_FINISHED may have been written: the copy task must confirm it first.
            return 0
        await self._repair.run_once(log, remote)
        term.find_copied_offset(log, remote)
        config, decision = log.config, self._decide(log, remote)
        if decision.log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(decision.log_start_offset)
        self._log_withheld(decision)
        return await self._delete_all(remote, decision.expired, config)

    def _log_withheld(self, decision: RetentionDecision) -> None:
        for segment, reason in decision.withheld:
            if segment.id in self._withheld:
                continue
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
                _log.info(
                    "The unfinished copy [%d, %d] of %s is kept: no finished remote segment has "
                    "all its records, and nothing is copied now",
                    segment.start_offset,
                    segment.end_offset,
                    segment.topic_id_partition.topic_partition,
                )
            else:
                _log.warning(
                    "The remote segment [%d, %d] of %s is not deleted, although %s: no other "
                    "segment has its records. Check whether leader-epoch-checkpoint or %s is "
                    "damaged",
                    segment.start_offset,
                    segment.end_offset,
                    segment.topic_id_partition.topic_partition,
                    reason.value,
                    METADATA_TOPIC,
                )
        self._withheld = {segment.id for segment, _ in decision.withheld}

    def _decide(self, log: UnifiedLog, remote: RemoteLog) -> RetentionDecision:
        statistics, topic_partition = self._deletion.statistics, log.topic_partition
        config = log.config
        assert self._term.copying.state is not CopyState.UNKNOWN, (
            "Nothing expires before it is known how far the tier has the log."
        )
        began = asyncio.get_running_loop().time()
        decision = decide_retention(
            remote,
            facts_of(log, remote),
            RetentionLimits(config.retention_ms, config.retention_bytes)
            if config.deletes
            else RetentionLimits(-1, -1),
            self._deletion.environment.wall_clock_ms(),
            Exempt(
                self._term.reserved,
                config.copies_to_tier and self._term.copying.state is not CopyState.CANCELLED,
            ),
            self._size_of(remote),
        )
        took_ms = (asyncio.get_running_loop().time() - began) * 1000
        statistics.set_log_size(topic_partition, remote.finished_bytes, took_ms)
        statistics.set_metadata_count(topic_partition, len(remote))
        return decision

    def _size_of(self, remote: RemoteLog) -> LineageSize:
        if self._size is None:
            self._size = LineageSize(remote)
        return self._size

    def _words(self, expired: ExpiredSegment, config: LogConfig) -> str:
        """The delete reason in Kafka's words, with the limit of `config` that was breached."""
        segment, reason = expired
        log = self._term.log()
        if log is None or reason not in _BREACHES:
            return reason.value
        return _BREACHES[reason].format(
            start=log.log_start_offset,
            ms=config.retention_ms,
            nbytes=config.retention_bytes,
            timestamp=segment.max_timestamp_ms,
        )

    async def _delete_all(
        self, remote: RemoteLog, expired: list[ExpiredSegment], config: LogConfig
    ) -> int:
        """Delete what expired by `config`; the topic may have another one before this ends."""
        deleted = failures_in_a_row = 0
        lag = _Lag(self._deletion, self._term, expired)
        failure: RemoteStorageError | None = None
        # Oldest first, but objects that the store never gives up keep no others.
        untried_first = sorted(expired, key=lambda each: each.segment.id in self._failed)
        for each in untried_first:
            segment, reason = each
            current = remote.segment(segment.id)
            if not self._term.is_current:
                break
            if current is None or segment.id in self._term.reserved:
                # Another task has deleted the segment since, or is working on it.
                continue
            assert reason in _REASONS_WITHOUT_READERS or _is_below_log_start(
                segment, self._term.log()
            ), f"The log start offset is raised before {segment_words(segment)} is deleted."
            words = self._words(each, config)
            _log.info(
                "About to delete remote log segment %s due to %s", segment_words(segment), words
            )
            try:
                with self._term.holding(segment.id):
                    await self._deletion.delete(current, words)
            except RemoteStorageError as error:
                self._failed.add(segment.id)
                failure = error
                failures_in_a_row += 1
                if failures_in_a_row >= _FAILURES_IN_A_ROW_MAX:
                    break
            else:
                self._failed.discard(segment.id)
                deleted += 1
                failures_in_a_row = 0
                lag.deleted(segment.segment_size_bytes)
        if failure is None or self._failed.issuperset(each.segment.id for each in expired):
            # Each had its turn: oldest first again.
            self._failed.clear()
        if failure is not None:
            raise failure
        return deleted


class _Lag:
    """Reports how much is still to be deleted."""

    def __init__(
        self, deletion: SegmentDeletion, term: LeaderTerm, expired: list[ExpiredSegment]
    ) -> None:
        self._statistics = deletion.statistics
        self._partition = term.partition.topic_partition
        self._bytes = sum(each.segment.segment_size_bytes for each in expired)
        self._segments = len(expired)
        self._report_lag()

    def deleted(self, nbytes: int) -> None:
        self._bytes -= nbytes
        self._segments -= 1
        self._report_lag()

    def _report_lag(self) -> None:
        self._statistics.set_delete_lag(self._partition, self._bytes, self._segments)


def facts_of(log: UnifiedLog, remote: RemoteLog) -> LogFacts:
    """The current state of a log, as far as retention needs it."""
    history = log.leader_epochs.entries
    segments = (
        (segment.base_offset, log.end_offset_of(segment), segment.size)
        for segment in log.local.segments
    )
    return LogFacts(
        history,
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        local_only_bytes(remote, history, segments, log.highest_remote_offset)
        if log.config.retention_bytes >= 0
        else 0,
        log.local_log_start_offset,
    )
