"""Restores lost leader epoch history from the metadata of the remote segments (KIP-101).

Locally, only `leader-epoch-checkpoint` records which epoch wrote the records below the local log.
If that file is lost or damaged, the metadata of each remote segment has the epochs of its offsets.
The search goes down from the local log. At each offset, the right segment is the one with the
newest epoch there that is not newer than the epochs found above.

The log start offset checkpoint may be lost too, and some remote segments may have expired. So the
tier need not reach the log start offset: the log then begins at the lowest offset in the tier.
"""

from collections.abc import Iterator

from ..remote.log_gaps import first_gap
from ..remote.remote_lineage import EpochHistory, LogExtent, epoch_of_offset
from ..remote.remote_log import RemoteLog
from ..remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from .leader_epoch import EpochEntry


def mended_history(
    remote: RemoteLog, history: EpochHistory, bounds: LogExtent
) -> list[EpochEntry] | None:
    """A history with which more, or all, of the remote records below the local log can be read.

    If it begins above the log start offset, the tier has nothing below its beginning. None if there
    is no such history, or if the present one reaches as far down: a history that is correct, or
    whose first gap is higher up, is not changed. Only the part below the first epoch that begins
    above the log start offset is replaced.
    """
    start, local_start = bounds.log_start_offset, bounds.local_log_start_offset
    if first_gap(remote, history, start, local_start) != start:
        return None
    end = min([first for _, first in history if first > start] + [local_start])
    below = _epochs_below(remote, start, end, _newest_below(history, end))
    if not below or first_gap(remote, history, below[0].start_offset, end) != below[0].start_offset:
        return None
    newest = below[-1].epoch
    above = [EpochEntry(*entry) for entry in history if entry[1] >= end and entry[0] > newest]
    epoch = epoch_of_offset(history, end)
    is_epoch_missing = not above or above[0].start_offset > end
    if epoch > newest and is_epoch_missing and bounds.log_end_offset > end:
        above.insert(0, EpochEntry(epoch, end))
    return [*below, *above]


def _newest_below(history: EpochHistory, offset: int) -> int | None:
    """The newest epoch that may have written the offset before `offset`; None if any may have."""
    epoch = epoch_of_offset(history, offset)
    return epoch if epoch >= 0 else None


def _epochs_below(remote: RemoteLog, start: int, end: int, newest: int | None) -> list[EpochEntry]:
    """The epochs of [start, end), or of its part in the tier, from finished segments' metadata."""
    entries: dict[int, int] = {}
    lowest = end
    for segment, offset in _downward(remote, start, end, newest):
        for epoch, first in segment.segment_leader_epochs:
            if first <= offset:
                entries[epoch] = min(first, entries.get(epoch, first))
        lowest = max(_first_offset_with_epoch(segment), start)
    return [
        EpochEntry(epoch, max(first, lowest))
        for epoch, first in sorted(_from(entries, lowest).items())
    ]


def _downward(
    remote: RemoteLog, start: int, end: int, newest: int | None
) -> Iterator[tuple[RemoteLogSegmentMetadata, int]]:
    """The segments from `end` down to `start`, each with the last offset to take its epochs for."""
    waiting = sorted(
        (
            segment
            for segment in remote.segments()
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and segment.start_offset < end
        ),
        key=lambda segment: segment.end_offset,
    )
    reached: list[RemoteLogSegmentMetadata] = []
    offset = end - 1
    while offset >= start:
        while waiting and waiting[-1].end_offset >= offset:
            reached.append(waiting.pop())
        last_offsets = [
            (_last_offset_with_epoch(segment, offset, newest), segment) for segment in reached
        ]
        # A segment without a usable offset from `start` on is not needed again.
        reached = [segment for last, segment in last_offsets if last >= start]
        here = [segment for last, segment in last_offsets if last == offset]
        if here:
            best = _furthest_down(here, offset)
            yield best, offset
            newest = best.segment_leader_epochs[0][0]
            offset = _first_offset_with_epoch(best) - 1
        else:
            # The tier has no records here, or only records of another leader.
            lower = [last for last, _ in last_offsets] + [
                segment.end_offset for segment in waiting[-1:]
            ]
            offset = max(lower, default=-1)


def _furthest_down(
    segments: list[RemoteLogSegmentMetadata], offset: int
) -> RemoteLogSegmentMetadata:
    """The segment with the newest epoch at `offset`; of several, the one that reaches lowest."""
    return max(
        segments, key=lambda each: (_epoch_at(each, offset), -_first_offset_with_epoch(each))
    )


def _first_offset_with_epoch(segment: RemoteLogSegmentMetadata) -> int:
    """Where a segment's epochs begin: above its first offset if the log began in its midst."""
    return segment.segment_leader_epochs[0][1]


def _last_offset_with_epoch(
    segment: RemoteLogSegmentMetadata, offset: int, newest: int | None
) -> int:
    """The segment's last offset up to `offset` that an epoch up to `newest` wrote; -1 if none."""
    last = min(offset, segment.end_offset)
    for epoch, first in reversed(segment.segment_leader_epochs):
        if first <= last:
            if newest is None or epoch <= newest:
                return last
            last = first - 1
    return -1


def _epoch_at(segment: RemoteLogSegmentMetadata, offset: int) -> int:
    return epoch_of_offset(segment.segment_leader_epochs, offset)


def _from(entries: dict[int, int], start: int) -> dict[int, int]:
    """`entries` without the epochs that ended at or before `start`."""
    ordered = sorted(entries.items())
    later = [*(first for _, first in ordered[1:]), start + 1][: len(ordered)]
    return {
        epoch: first
        for (epoch, first), following in zip(ordered, later, strict=True)
        if following > start
    }
