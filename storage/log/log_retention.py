"""Finds the local segments that retention deletes, from the oldest up to the first one to keep.

A segment is deleted if it is entirely below the log start offset, if the log exceeds its retention
size even without it, or if its largest timestamp is too old; but never while its last offset is at
or above the high watermark.

A tiered log keeps everything that is not yet in the tier: local.retention.* deletes only segments
that end at or below the highest offset of a finished copy, and the log start offset does not move
(KIP-405). If copying is disabled, retention.* applies to the local segments, and the log starts
with the first of them (KIP-950). The active segment is rolled when it breaches local retention, so
that low-traffic topics reach the tier (KAFKA-15047). A timestamp in the future would keep its
segment local forever, so the age of such a segment is measured from the modification time of its
file (KAFKA-20609).
"""

from collections.abc import Callable
from typing import NamedTuple

from ..config import LogConfig
from ..segment.log_segment import LogSegment
from .local_log import LocalLog

_Breaches = Callable[[LogSegment], bool]


class RetentionBounds(NamedTuple):
    """The offsets that retention must respect."""

    log_start_offset: int
    local_log_start_offset: int
    high_watermark: int
    highest_remote_offset: int
    is_copied: bool
    """Whether segments are copied to the remote tier; if so, uncopied segments must be kept."""


class Breached(NamedTuple):
    """The oldest segments to delete, and whether the active one must be rolled."""

    segments: list[LogSegment]
    rolls_active: bool
    reason: str = ""
    """The reason for the deletion, in Kafka's words."""


def breached_segments(local: LocalLog, bounds: RetentionBounds, now_ms: int) -> Breached:
    """The segments to delete now, by the rule (log start, size or age) that deletes the most."""
    config = local.config
    start = f"log start offset {bounds.local_log_start_offset} breach"
    rules: list[tuple[_Breaches, str]] = [(_log_start_rule(local, bounds), start)]
    if config.deletes or (bounds.is_copied and not config.is_compacted):
        size, age = _limits(config, bounds)
        which = "local log" if bounds.is_copied else "log"
        rules.append((_size_rule(local, size), f"{which} retention size {size} breach"))
        rules.append((_age_rule(age, bounds, now_ms), f"{which} {_age_words(local, age, now_ms)}"))
    breached = Breached([], False)
    for rule, reason in rules:
        candidate = _oldest_breaching(local, bounds, rule)
        is_longer = len(candidate.segments) > len(breached.segments)
        breached = Breached(
            candidate.segments if is_longer else breached.segments,
            breached.rolls_active or candidate.rolls_active,
            reason if is_longer else breached.reason,
        )
    return breached


def _age_words(local: LocalLog, age: int, now_ms: int) -> str:
    first = local.segments.first.largest_timestamp
    based_on = "last modified time of" if first > now_ms else "largest record timestamp in"
    return f"retention time {age}ms breach based on the {based_on} the segment"


def _limits(config: LogConfig, bounds: RetentionBounds) -> tuple[int, int]:
    """The retention size in bytes and time in milliseconds for the local segments."""
    if bounds.is_copied:
        return config.effective_local_retention_bytes, config.effective_local_retention_ms
    return config.retention_bytes, config.retention_ms


def _oldest_breaching(local: LocalLog, bounds: RetentionBounds, breaches: _Breaches) -> Breached:
    expired: list[LogSegment] = []
    active = local.active_segment
    for segment in local.segments:
        end_offset = local.end_offset_of(segment)
        if bounds.high_watermark < end_offset or not breaches(segment):
            break
        if segment is active:
            if segment.size == 0:
                break
            if bounds.is_copied:
                return Breached(expired, True)
        if bounds.is_copied and not _may_leave_disk(end_offset, bounds):
            break
        expired.append(segment)
    return Breached(expired, False)


def _may_leave_disk(end_offset: int, bounds: RetentionBounds) -> bool:
    return end_offset - 1 <= bounds.highest_remote_offset or end_offset <= bounds.log_start_offset


def _log_start_rule(local: LocalLog, bounds: RetentionBounds) -> _Breaches:
    start = bounds.local_log_start_offset
    active = local.active_segment

    def breaches(segment: LogSegment) -> bool:
        return segment is not active and local.end_offset_of(segment) <= start

    return breaches


def _size_rule(local: LocalLog, limit: int) -> _Breaches:
    excess = local.segments.size_in_bytes - limit if limit >= 0 else -1

    def breaches(segment: LogSegment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return breaches


def _age_rule(limit: int, bounds: RetentionBounds, now_ms: int) -> _Breaches:
    def breaches(segment: LogSegment) -> bool:
        if limit < 0:
            return False
        timestamp = segment.largest_timestamp
        if bounds.is_copied and timestamp > now_ms:
            timestamp = segment.modified_ms
        return now_ms - timestamp > limit

    return breaches
