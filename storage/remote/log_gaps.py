"""Finds gaps: offsets of a tiered log that are neither local nor in a readable remote segment.

    log start            local log start                 log end
        | finished | gap | finished |  local segments       |

Normally there is no gap: a local segment is deleted only once its copy is finished. A gap means
that metadata events or local files were lost. The tier may still have a complete copy of these
records in a segment in state COPY_SEGMENT_STARTED; it is then the only copy.
"""

from collections.abc import Iterable

from .remote_lineage import (
    EpochHistory,
    Lineage,
    LogExtent,
    SegmentLookup,
    epoch_end_offsets,
    epoch_of_offset,
)
from .remote_log import RemoteLog
from .remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState


def first_gap(remote: SegmentLookup, history: EpochHistory, start: int, end: int) -> int | None:
    """The first offset of [start, end) that no readable segment of this history has, if any."""
    if start >= end:
        return None
    epoch_ends = dict(epoch_end_offsets(history, end))
    offset = start
    while offset < end:
        epoch = epoch_of_offset(history, offset)
        segment = remote.segment_for(epoch, offset)
        if segment is None:
            return offset
        offset = min(segment.end_offset_of_epoch(epoch) + 1, epoch_ends[epoch])
    return None


def log_has_gap(remote: SegmentLookup, history: EpochHistory, bounds: LogExtent) -> bool:
    """Whether an offset within the log's bounds cannot be read."""
    start, end = bounds.log_start_offset, bounds.local_log_start_offset
    return first_gap(remote, history, start, end) is not None


def segments_in_gaps(
    segments: Iterable[RemoteLogSegmentMetadata],
    remote: SegmentLookup,
    history: EpochHistory,
    bounds: LogExtent,
) -> list[RemoteLogSegmentMetadata]:
    """Those of the `segments` that belong to this history and have records of a gap."""
    lineage = Lineage(history)
    chosen: list[RemoteLogSegmentMetadata] = []
    for segment in segments:
        start = max(segment.start_offset, bounds.log_start_offset)
        end = min(segment.end_offset + 1, bounds.local_log_start_offset)
        if not lineage.holds(segment, bounds.log_end_offset):
            continue
        if first_gap(remote, history, start, end) is not None:
            chosen.append(segment)
    return chosen


def begun_copies_in_gaps(
    remote: RemoteLog, history: EpochHistory, bounds: LogExtent
) -> list[RemoteLogSegmentMetadata]:
    """Unfinished copies of records that cannot be read anywhere else."""
    begun = [
        segment
        for segment in remote.unfinished_segments()
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    ]
    return segments_in_gaps(begun, remote, history, bounds) if begun else []
