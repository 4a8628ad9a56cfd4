"""The part of a log's epoch history that its disk has lost and its tier still tells (KIP-101).

`leader-epoch-checkpoint` alone says which epoch wrote what lies below the local log. If it is lost
or damaged, the segments in the tier say it as well, each for its own offsets: from the local log on
downward, the newest leader is right, and no epoch is newer than the one above it.
"""

from .leader_epoch import EpochEntry
from .log_gaps import first_gap
from .remote_lineage import EpochHistory, LogBounds, epoch_of_offset
from .remote_log import RemoteLog
from .remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState


def mended_history(
    remote: RemoteLog, history: EpochHistory, bounds: LogBounds
) -> list[EpochEntry] | None:
    """A history under which the tier has all that lies below the local log.

    None where there is none, and where the present one is such a history or partly so: what is in
    order, or has a hole of another kind, is not touched.
    """
    start, local_start = bounds.log_start_offset, bounds.local_log_start_offset
    if start >= local_start or first_gap(remote, history, bounds, start, local_start) != start:
        return None
    below = _told_below(remote, start, local_start, _newest_below(history, local_start))
    if below is None:
        return None
    above = [EpochEntry(*entry) for entry in history if entry[1] > local_start]
    epoch = epoch_of_offset(history, local_start)
    if epoch > below[-1].epoch and bounds.log_end_offset > local_start:
        above.insert(0, EpochEntry(epoch, local_start))
    mended = [*below, *above]
    return mended if first_gap(remote, mended, bounds, start, local_start) is None else None


def _newest_below(history: EpochHistory, offset: int) -> int | None:
    """What epoch may at most have written the offset before; None: any."""
    epoch = epoch_of_offset(history, offset)
    return epoch if epoch >= 0 else None


def _told_below(
    remote: RemoteLog, start: int, end: int, newest: int | None
) -> list[EpochEntry] | None:
    """The epochs of [start, end) as finished segments tell them; None if one offset is in none."""
    entries: dict[int, int] = {}
    finished = [
        each
        for each in remote.segments()
        if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ]
    offset = end - 1
    while offset >= start:
        # The newest leader; of its segments the one that leads furthest down.
        candidates = [
            (_epoch_at(each, offset), -each.start_offset, number)
            for number, each in enumerate(finished)
            if each.start_offset <= offset <= each.end_offset
            and (newest is None or _epoch_at(each, offset) <= newest)
        ]
        if not candidates:
            return None
        best = finished[max(candidates)[2]]
        for epoch, first in best.segment_leader_epochs:
            if first <= offset:
                entries[epoch] = min(first, entries.get(epoch, first))
        newest = best.segment_leader_epochs[0][0]
        offset = best.start_offset - 1
    return [
        EpochEntry(epoch, max(first, start) if number == 0 else first)
        for number, (epoch, first) in enumerate(sorted(_from(entries, start).items()))
    ]


def _epoch_at(segment: RemoteLogSegmentMetadata, offset: int) -> int:
    return epoch_of_offset(segment.segment_leader_epochs, offset)


def _from(entries: dict[int, int], start: int) -> dict[int, int]:
    """Without the epochs that ended at or before the log start."""
    ordered = sorted(entries.items())
    later = [first for _, first in ordered[1:]] + [start + 1]
    return {
        epoch: first
        for (epoch, first), following in zip(ordered, later, strict=True)
        if following > start
    }
