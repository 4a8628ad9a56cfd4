"""Chooses the log to compact next, and which part of it.

A log is cleaned from its start to the first uncleanable offset: the lowest of the last stable
offset, the start of the active segment, and the start of the first segment with a record younger
than `min.compaction.lag.ms`. Unlike in Kafka, it is also at most the recovery point: a record must
be durable before it supersedes another, or a power loss could destroy both.

Records that were cleaned before are clean; the rest are dirty. The log with the highest dirty ratio
comes first, if the ratio exceeds `min.cleanable.dirty.ratio`. A log with a dirty record older than
`max.compaction.lag.ms` is cleaned whatever its dirty ratio (CL1;
`LogCleanerManager.grabFilthiestCompactedLog` in Kafka).
"""

from collections.abc import Iterable
from typing import NamedTuple

from ..log.unified_log import UnifiedLog
from ..segment.log_segment import LogSegment


class CleanableLog(NamedTuple):
    """How dirty one compacted log is, and which part of it may be cleaned."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """By how much the oldest dirty record's age exceeds max.compaction.lag.ms; 0 if it does not."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty fraction of the part that may be cleaned, from 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log should be cleaned now."""
        if self.dirty_bytes == 0:
            return False
        return self.overdue_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def measure(log: UnifiedLog, first_dirty_offset: int, now_ms: int) -> CleanableLog:
    """Compute how dirty a log is, and how far it may be cleaned."""
    closed = list(log.local.segments)[:-1]
    dirty = [segment for segment in closed if log.end_offset_of(segment) > first_dirty_offset]
    end_offset = log.local.active_segment.base_offset
    settled = min(log.last_stable_offset, log.recovery_point)
    waiting = log.local.segments.floor(settled)
    if waiting is not None:
        # Only whole segments are cleaned; the segment that contains the bound is left out.
        end_offset = min(end_offset, waiting.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = [
            segment.base_offset for segment in dirty if segment.largest_timestamp > now_ms - lag_ms
        ]
        end_offset = min([end_offset, *young])
    # A partly dirty segment counts as dirty.
    below = [segment.size for segment in closed if segment.base_offset < end_offset]
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end_offset)
    clean_bytes = sum(below) - dirty_bytes
    return CleanableLog(
        log,
        first_dirty_offset,
        end_offset,
        clean_bytes,
        dirty_bytes,
        _overdue_ms(dirty, log.config.max_compaction_lag_ms, now_ms),
    )


def _overdue_ms(dirty: list[LogSegment], lag_ms: int, now_ms: int) -> int:
    timestamps = [
        first for segment in dirty if (first := segment.first_batch_timestamp()) is not None
    ]
    if not timestamps:
        return 0
    return max(0, now_ms - lag_ms - min(timestamps))


def dirtiest(measured: Iterable[CleanableLog]) -> CleanableLog | None:
    """The log to be cleaned next, if any is due."""
    return max(
        (cleanable for cleanable in measured if cleanable.is_due), key=_dirty_ratio, default=None
    )


def _dirty_ratio(cleanable: CleanableLog) -> float:
    return cleanable.dirty_ratio


def group_segments(
    segments: list[LogSegment], max_size: int, max_index_size: int, end_offset: int
) -> list[list[LogSegment]]:
    """Group neighbours that fit into one segment, so that small cleaned segments are merged.

    The cleanable part ends at `end_offset`. No group exceeds the maximum segment size, index size
    or relative offset.
    """
    groups: list[list[LogSegment]] = []
    if not segments:
        # Retention may have deleted all segments while their keys were read.
        return groups
    bounds = [*(each.base_offset for each in segments[1:]), end_offset]
    size = offset_index_size = time_index_size = 0
    for segment, bound in zip(segments, bounds, strict=True):
        size += segment.size
        offset_index_size += segment.offset_index.size_in_bytes
        time_index_size += segment.time_index.size_in_bytes
        if (
            groups
            and size <= max_size
            and offset_index_size <= max_index_size
            and time_index_size <= max_index_size
            and (segment.size == 0 or bound - 1 - groups[-1][0].base_offset <= _INT32_MAX)
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        size = segment.size
        offset_index_size = segment.offset_index.size_in_bytes
        time_index_size = segment.time_index.size_in_bytes
    return groups


_INT32_MAX = 0x7FFFFFFF
