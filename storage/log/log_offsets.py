"""Finds the offsets for ListOffsets in one log.

A query with a timestamp finds the first record with at least that timestamp; negative timestamps
stand for named offsets. In a tiered log the newest records are local and the oldest are remote: a
search that might match below the local segments returns a `RemoteTimestampLookup`, with the local
result as fallback.
"""

from collections.abc import Generator
from typing import TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.offset_names import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from ..segment.time_index import TimestampAndOffset
from .fetch_data import RemoteTimestampLookup
from .log_parts import LogParts

_UNKNOWN = -1
_TIER_TIMESTAMPS = (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP)


Found: TypeAlias = TimestampAndOffset | RemoteTimestampLookup | None


def find_offset(log: LogParts, timestamp: int) -> Generator[None, None, Found]:
    """Find the offset for a timestamp or a named offset; None if every record is older.

    Pauses in batches of many records; segments may be added or deleted during a pause.

    Raises KafkaError(OFFSET_NOT_AVAILABLE) for a named offset that depends on the highest remote
    offset, while that is unknown.
    """
    if timestamp >= 0:
        return (yield from _find_timestamp(log, timestamp))
    if timestamp == MAX_TIMESTAMP:
        return _or_remote(log, timestamp, (yield from _find_max_timestamp(log)))
    offset = _named_offset(log, timestamp)
    if offset is None:
        return TimestampAndOffset(_UNKNOWN, _UNKNOWN, _UNKNOWN)
    epoch = (
        log.leader_epochs.latest_epoch
        if timestamp == LATEST_TIMESTAMP
        else log.leader_epochs.epoch_for_offset(offset)
    )
    return TimestampAndOffset(_UNKNOWN, offset, _UNKNOWN if epoch is None else epoch)


def _named_offset(log: LogParts, name: int) -> int | None:
    if name in _TIER_TIMESTAMPS and log.is_tiered and not log.bounds.knows_remote:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            "The highest offset in the remote tier is not yet known for "
            f"{log.topic_id_partition.topic_partition}",
        )
    is_copied = log.is_tiered and log.bounds.highest_remote >= 0
    if name == LATEST_TIMESTAMP:
        return log.bounds.log_end
    if name == EARLIEST_TIMESTAMP:
        return log.bounds.log_start
    if name == EARLIEST_LOCAL_TIMESTAMP:
        return log.bounds.local_log_start
    if name == LATEST_TIERED_TIMESTAMP:
        return log.bounds.highest_remote if is_copied else None
    if name == EARLIEST_PENDING_UPLOAD_TIMESTAMP and log.is_tiered:
        if not is_copied and log.bounds.log_start < log.bounds.local_log_start:
            # The tier has records, but this leader has not yet found out up to which offset.
            return None
        return max(log.bounds.highest_remote + 1, log.bounds.log_start)
    return None


def _find_timestamp(log: LogParts, timestamp: int) -> Generator[None, None, Found]:
    local: TimestampAndOffset | None = None
    for segment in list(log.local.segments):
        if segment.is_deleted or log.local.is_released:
            continue
        if segment.size and segment.largest_timestamp >= timestamp:
            local = yield from segment.find_timestamp(timestamp, log.bounds.local_log_start)
            if local is not None:
                break
    return _or_remote(log, timestamp, local)


def _or_remote(
    log: LogParts, timestamp: int, local: TimestampAndOffset | None
) -> TimestampAndOffset | RemoteTimestampLookup | None:
    """The local result, or a `RemoteTimestampLookup` if the tier may have a better one."""
    if log.is_tiered and log.bounds.log_start < log.bounds.local_log_start:
        return RemoteTimestampLookup(
            log.topic_id_partition,
            timestamp,
            log.bounds.log_start,
            log.bounds.local_log_start,
            local,
        )
    return local


def _find_max_timestamp(log: LogParts) -> Generator[None, None, TimestampAndOffset | None]:
    """Find the first record with the largest timestamp in the local log (KIP-734).

    Kafka may also return a record below the log start, if it has the largest timestamp on disk.
    """
    start, best = log.bounds.local_log_start, None
    segments = [segment for segment in log.local.segments if segment.size]
    segments.sort(
        key=lambda segment: (-segment.max_timestamp_so_far.timestamp, segment.base_offset)
    )
    for segment in segments:
        if segment.is_deleted or log.local.is_released:
            continue
        highest = segment.max_timestamp_so_far.timestamp
        if best is not None and best.timestamp > highest:
            break
        if best is not None and best.timestamp == highest and best.offset < segment.base_offset:
            continue
        entry = yield from segment.find_timestamp(highest, start)
        if entry is None:
            entry = yield from segment.find_youngest(start)
        if entry is not None and (best is None or entry.is_better_maximum(best)):
            best = entry
    return best
