"""Finds the remote segments of this replica's leader epoch history (KIP-405, KIP-101).

An unclean election may leave segments in the tier whose records a later leader never had. Only
their leader epochs identify them: the local epoch history has the epoch of each offset, and a
segment counts only if its epochs agree. The main functions are:

- `Lineage.holds`: whether a whole segment belongs to the history, which determines
  whether retention counts it and whether a timestamp lookup may read it;
- `highest_remote_offset`: the last offset of the history in the tier, after which copying continues
  and up to which local records may be deleted;
- `remote_log_start_offset`: where the history in the tier begins.

The history is an ascending sequence of (leader epoch, its first offset) that reaches back to the
log start offset, not only to the first local segment. The rules are those of
`RemoteLogManager.isRemoteSegmentWithinLeaderEpochs`, `findHighestRemoteOffset` and
`findLogStartOffset`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from .remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState

EpochHistory = Sequence[tuple[int, int]]

NO_EPOCH = -1


class OffsetAndEpoch(NamedTuple):
    """An offset and the leader epoch that wrote it; (-1, -1) where there is none."""

    offset: int
    epoch: int


class EpochIndex(Protocol):
    """The part of `RemoteLog` that these functions use."""

    def highest_offset_for_epoch(self, epoch: int) -> int | None: ...

    def segments_for_epoch(self, epoch: int) -> list[RemoteLogSegmentMetadata]: ...


def without_empty_epochs(history: EpochHistory) -> list[tuple[int, int]]:
    """Omit epochs without records, which begin where the next epoch begins."""
    if len(history) < 2:
        return list(history)
    kept = [
        (epoch, start)
        for (epoch, start), (_, next_start) in pairwise(history)
        if start < next_start
    ]
    return [*kept, history[-1]]


class Lineage:
    """An epoch history prepared for checking many segments."""

    def __init__(self, history: EpochHistory) -> None:
        self.epochs = without_empty_epochs(history)
        self._starts = dict(self.epochs)
        self._following = {epoch: after for (epoch, _), after in pairwise(self.epochs)}

    def holds(self, segment: RemoteLogSegmentMetadata, log_end_offset: int) -> bool:
        """Whether every record of the segment belongs to the history.

        Epochs before the history's first are ignored, because the beginning of the history may
        have been truncated along with the records (KAFKA-16890).
        """
        if segment.end_offset >= log_end_offset:
            return False
        segment_epochs = without_empty_epochs(segment.segment_leader_epochs)
        if not self.epochs or not _ends_within(segment_epochs, self.epochs):
            return False
        first_log_epoch = self.epochs[0][0]
        starts, following = self._starts, self._following
        compared = [entry for entry in segment_epochs if entry[0] >= first_log_epoch]
        for position, (epoch, offset) in enumerate(compared):
            if epoch not in starts:
                return False
            if position == 0 and epoch != first_log_epoch and offset < starts[epoch]:
                return False
            next_entry = following.get(epoch)
            if position + 1 < len(compared):
                if next_entry != compared[position + 1]:
                    return False
            elif next_entry is not None and segment.end_offset > next_entry[1] - 1:
                return False
        return True


def _ends_within(segment_epochs: EpochHistory, log_epochs: EpochHistory) -> bool:
    return log_epochs[0][0] <= segment_epochs[-1][0] <= log_epochs[-1][0]


def epoch_end_offsets(history: EpochHistory, log_end_offset: int) -> Iterator[tuple[int, int]]:
    """Each epoch with the offset after its last record, newest epoch first."""
    end_offset = log_end_offset
    for epoch, start_offset in reversed(history):
        yield epoch, end_offset
        end_offset = start_offset


def highest_remote_offset(
    remote: EpochIndex, history: EpochHistory, log_end_offset: int
) -> OffsetAndEpoch:
    """The last offset of this history that is in the tier; (-1, -1) if none is.

    The tier may have more of an epoch than this history, copied by a leader that an unclean
    election deposed, so the result is limited to the epoch's end in this history.
    """
    for epoch, end_offset in epoch_end_offsets(history, log_end_offset):
        highest = remote.highest_offset_for_epoch(epoch)
        if highest is not None:
            return OffsetAndEpoch(min(highest, end_offset - 1), epoch)
    return OffsetAndEpoch(-1, NO_EPOCH)


class LogExtent(NamedTuple):
    """The log start, local log start and log end offsets of a log."""

    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int


class SegmentLookup(EpochIndex, Protocol):
    """An `EpochIndex` that can also look up segments."""

    def segment_for(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None: ...


def copied_up_to(remote: SegmentLookup, history: EpochHistory, bounds: LogExtent) -> int:
    """The last offset up to which the tier has all records; -1 if it has none.

    Local data is deleted up to this offset, so `highest_remote_offset` is not enough: it includes
    segments that have been deleted since, for example by a new leader while the old one was still
    copying. Here each offset from the log start on must be in a readable segment. A gap below the
    local log can no longer be filled and is skipped; offsets below the log start need no copy.
    """
    highest = highest_remote_offset(remote, history, bounds.log_end_offset).offset
    ends = dict(epoch_end_offsets(history, bounds.log_end_offset))
    offset = bounds.log_start_offset
    while offset < bounds.log_end_offset:
        epoch = epoch_of_offset(history, offset)
        segment = remote.segment_for(epoch, offset)
        if segment is not None:
            offset = min(segment.end_offset_of_epoch(epoch) + 1, ends[epoch])
        elif offset < bounds.local_log_start_offset:
            offset = bounds.local_log_start_offset
        else:
            break
    return min(offset - 1, highest)


def remote_log_start_offset(
    remote: EpochIndex, history: EpochHistory, local_log_start_offset: int
) -> int:
    """The log start including the tier: where the first finished segment of the history starts.

    The local log start offset if the history has no finished segment.
    """
    for epoch, _ in history:
        for segment in remote.segments_for_epoch(epoch):
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                return segment.start_offset
    return local_log_start_offset


def epoch_of_offset(history: EpochHistory, offset: int) -> int:
    """The leader epoch that wrote an offset; -1 if the history begins above the offset."""
    slot = bisect_right(history, offset, key=_start_of)
    return history[slot - 1][0] if slot else NO_EPOCH


def _start_of(entry: tuple[int, int]) -> int:
    return entry[1]
