"""Chooses the segments that make up one partition's log, from the tier alone.

Without the metadata topic, the manifests are the only source (KIP-405 leaves this "recovery of the
metadata" as future work). The rules:

- Only complete segments count: a manifest, and every part that it names, with the right size.
- The newest leader wins (KIP-101): the *tail* is the segment with the highest leader epoch, and
  among those the highest end offset. Its `leader_epoch_checkpoint` is the history of the log up to
  its end, and the log ends there.
- From the first readable offset on, each is looked up by (leader epoch, offset) in that history, as
  a reader does. The segments found this way are kept. The others, from a branch that an unclean
  election cut off or copies of kept segments, are left out.
- Offsets that no segment holds are a *hole*. There is no hole before the first segment: the log
  starts there.
- The epochs of a segment begin above its first offset if the log start offset lay in its midst when
  it was copied. All below had been deleted, so no hole ends there: the log starts there.

Otherwise the tier does not record the log start offset: records deleted by DeleteRecords come back
if their segment still exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_lineage import EpochHistory, epoch_end_offsets, epoch_of_offset
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)


class Hole(NamedTuple):
    """Offsets that no segment of the lineage holds, both ends inclusive."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


class Stretch(NamedTuple):
    """Offsets of one leader epoch to read from one segment.

    A segment may hold more: records that a later leader truncated, or that another copy also holds.
    """

    segment: RemoteLogSegmentMetadata
    first_offset: int
    end_offset: int
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class TierLineage:
    """The part of one partition's log that is in the tier."""

    topic_id_partition: TopicIdPartition
    history: EpochHistory
    log_start_offset: int
    log_end_offset: int
    """One past the last record."""
    segments: tuple[RemoteLogSegmentMetadata, ...]
    """The segments needed to read the log, in the order of their first use."""
    left_out: tuple[RemoteLogSegmentMetadata, ...]
    holes: tuple[Hole, ...]
    highest_epoch: int
    """The highest epoch of all segments, dead branches too: a new leader's must be higher."""
    stretches: tuple[Stretch, ...] = ()
    """The segment to read each offset from, in offset order; none covers a hole."""


def tail_of(segments: Sequence[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata:
    """The segment with the authoritative epoch history; `segments` must not be empty."""
    return max(
        segments,
        key=lambda each: (
            each.segment_leader_epochs[-1][0],
            each.end_offset,
            each.event_timestamp_ms,
            each.id,
        ),
    )


def finished_event(segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataUpdate:
    """The COPY_SEGMENT_FINISHED event of a segment, from its manifest."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id=segment.segment_id,
        event_timestamp_ms=segment.event_timestamp_ms,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=segment.broker_id,
    )


def remote_log_of(
    partition: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata]
) -> RemoteLog:
    """The `RemoteLog` of these segments, all finished."""
    remote = RemoteLog(partition)
    for segment in sorted(segments, key=lambda each: (each.event_timestamp_ms, each.start_offset)):
        remote.apply_copy_started(segment)
        remote.apply_update(finished_event(segment))
    return remote


def choose_lineage(
    segments: Sequence[RemoteLogSegmentMetadata], history: EpochHistory
) -> TierLineage:
    """The log that ends with the tail of these segments; `history` is the tail's."""
    tail = tail_of(segments)
    partition, end = tail.topic_id_partition, tail.end_offset + 1
    remote = remote_log_of(partition, segments)
    ends = dict(epoch_end_offsets(history, end))
    announced = {each.segment_id: each for each in segments}
    kept: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
    stretches: list[Stretch] = []
    holes: list[Hole] = []
    offset = start = _first_readable(remote, history, segments, 0, end)
    while offset < end:
        epoch = epoch_of_offset(history, offset)
        segment = remote.segment_for(epoch, offset)
        until = offset
        if segment is not None:
            until = min(segment.end_offset_of_epoch(epoch) + 1, ends[epoch])
        if segment is None or until <= offset:
            following = _first_readable(remote, history, segments, offset + 1, end)
            holes.append(Hole(offset, following - 1))
            offset = following
            continue
        # As in the manifest (COPY_SEGMENT_STARTED): a rebuild writes that event before FINISHED.
        kept[segment.segment_id] = announced[segment.segment_id]
        stretches.append(Stretch(announced[segment.segment_id], offset, until))
        offset = until
    lineage = TierLineage(
        topic_id_partition=partition,
        history=tuple(_from_start(history, start)),
        log_start_offset=start,
        log_end_offset=end,
        segments=tuple(kept.values()),
        left_out=tuple(each for each in segments if each.segment_id not in kept),
        holes=tuple(holes),
        highest_epoch=max(each.segment_leader_epochs[-1][0] for each in segments),
        stretches=tuple(stretches),
    )
    deleted_below = _deleted_below(lineage)
    return lineage if deleted_below is None else _from_offset(lineage, deleted_below)


def _deleted_below(lineage: TierLineage) -> int | None:
    """The end of the last hole that had been deleted before what follows it was copied, if any."""
    log_starts = {
        first
        for (_, first), start in (
            (segment.segment_leader_epochs[0], segment.start_offset) for segment in lineage.segments
        )
        if first > start
    }
    return max(
        (hole.last + 1 for hole in lineage.holes if hole.last + 1 in log_starts), default=None
    )


def after_last_hole(lineage: TierLineage) -> TierLineage:
    """The same log from the end of its last hole on; everything before is left out."""
    return _from_offset(lineage, lineage.holes[-1].last + 1) if lineage.holes else lineage


def _from_offset(lineage: TierLineage, start: int) -> TierLineage:
    """The same log from an offset on, at which a stretch begins; all before is left out."""
    kept = tuple(segment for segment in lineage.segments if segment.end_offset >= start)
    gone = tuple(segment for segment in lineage.segments if segment.end_offset < start)
    return replace(
        lineage,
        history=tuple(_from_start(lineage.history, start)),
        log_start_offset=start,
        segments=kept,
        left_out=(*lineage.left_out, *gone),
        holes=tuple(hole for hole in lineage.holes if hole.first >= start),
        stretches=tuple(stretch for stretch in lineage.stretches if stretch.first_offset >= start),
    )


def _first_readable(
    remote: RemoteLog,
    history: EpochHistory,
    segments: Sequence[RemoteLogSegmentMetadata],
    at_least: int,
    end: int,
) -> int:
    """The first offset from `at_least` on that some segment holds in the history's epoch."""
    # A readable stretch begins where an epoch begins, in a segment or in the history.
    starts = {start for segment in segments for _, start in segment.segment_leader_epochs}
    starts |= {start for _, start in history}
    starts.add(at_least)
    for offset in sorted(starts):
        if at_least <= offset < end and (
            remote.segment_for(epoch_of_offset(history, offset), offset) is not None
        ):
            return offset
    return end


def _from_start(history: EpochHistory, start: int) -> list[tuple[int, int]]:
    """The history from `start` on; the epoch of `start` begins there."""
    epoch = epoch_of_offset(history, start)
    later = [(epoch, first) for epoch, first in history if first > start]
    return [(epoch, start), *later] if epoch >= 0 else later
