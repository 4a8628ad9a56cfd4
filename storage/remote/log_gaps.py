"""What a tiered log claims to have and neither its disk nor the readable part of its tier holds.

    log start            local log start                 log end
        | finished | gap | finished |  local segments       |

In order there is no gap: a local segment goes only once its copy is finished. A gap comes of a
loss, of events of the metadata or of local files. The copy of such records may be in the tier all
the same, begun and whole and never said to be finished: then it is the only one.
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
    """The first offset of [start, end) that no finished segment of this history holds."""
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
    """Whether the log claims an offset that nobody could read."""
    start, end = bounds.log_start_offset, bounds.local_log_start_offset
    return first_gap(remote, history, start, end) is not None


def segments_in_gaps(
    segments: Iterable[RemoteLogSegmentMetadata],
    remote: SegmentLookup,
    history: EpochHistory,
    bounds: LogExtent,
) -> list[RemoteLogSegmentMetadata]:
    """Those of `segments` that belong to this history and hold records of a gap."""
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
    """Copies that began and did not end, of records that can be read nowhere else."""
    begun = [
        segment
        for segment in remote.unfinished_segments()
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    ]
    return segments_in_gaps(begun, remote, history, bounds) if begun else []
