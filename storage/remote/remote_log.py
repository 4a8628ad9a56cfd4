"""The remote log of a partition: finds the remote segment for a leader epoch and offset.

This is in-memory state, built from the events of the metadata topic in order (Kafka's
`RemoteLogMetadataCache` and `RemoteLogLeaderEpochState`). An offset alone does not identify a
segment: after an unclean election two segments may have different records at the same offset. The
epoch to look up comes from the reader's own epoch history.

For each leader epoch, an index maps the first offset of the epoch in a segment to the segment. Two
leaders may have rolled the same records at different offsets, so segments may overlap:

    epoch 3:   0 -------- 49            a copy by the first leader
                     30 -------- 99     a copy by the second: from 30 on, the later start wins
               0 ---------------------- 120   covers both, which become unreferenced

A segment that is COPY_SEGMENT_STARTED or DELETE_SEGMENT_STARTED, or is covered, is *unreferenced*:
it is listed for retention and clean-up, but not read. Only COPY_SEGMENT_FINISHED makes a segment
readable, and only DELETE_SEGMENT_FINISHED removes it.

Applying an event is idempotent. An event that the state machine does not allow, or for an unknown
segment, changes nothing; the caller gets the reason as an `Applied`.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from .remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    is_valid_partition_delete_transition,
    is_valid_segment_transition,
)

_TOUCHED_MAX = 1000


class Applied(Enum):
    """The result of applying an event."""

    YES = "applied"
    INVALID_TRANSITION = "the segment's state does not allow it"
    UNKNOWN_SEGMENT = "the segment is not known, or is already deleted"


class EpochImage(NamedTuple):
    """The state of one leader epoch."""

    epoch: int
    highest_offset: int | None
    readable: tuple[tuple[int, int, Uuid], ...]
    """First offset, last offset and id of each readable segment of this epoch."""


class RemoteLogImage(NamedTuple):
    """The whole state of a partition as immutable values, to be stored and restored."""

    segments: tuple[RemoteLogSegmentMetadata, ...]
    """In the order of their first events."""
    epochs: tuple[EpochImage, ...]
    partition_delete_state: RemotePartitionDeleteState | None
    remover_id: int


class _EpochState:
    """The segments of one leader epoch; the readable ones are ordered by their first offset."""

    __slots__ = ("ends", "highest_offset", "ids", "starts", "unreferenced")

    def __init__(self) -> None:
        self.starts: list[int] = []
        """First offsets, ascending. Parallel lists are fast: segments arrive in offset order."""
        self.ends: list[int] = []
        """The last offset of this epoch in each segment."""
        self.ids: list[Uuid] = []
        self.unreferenced: set[Uuid] = set()
        self.highest_offset: int | None = None
        """Never lowered: offsets copied once count as copied, even if deleted since."""

    def finish_copy(self, start_offset: int, segment_id: Uuid, end_offset: int) -> list[Uuid]:
        """Make a segment readable; returns those that it covers, which are no longer readable."""
        covered: list[Uuid] = []
        highest = self.highest_offset
        # A segment that reaches the end of the epoch covers all that start at or after its start.
        while (
            self.starts
            and self.starts[-1] >= start_offset
            and highest is not None
            and end_offset >= highest
        ):
            self.starts.pop()
            self.ends.pop()
            covered.append(self.ids.pop())
        position = bisect_right(self.starts, start_offset)
        if position and self.starts[position - 1] == start_offset:
            if end_offset < self.ends[position - 1]:
                # This is a shorter copy of the same records, perhaps finished late by a deposed
                # leader: using it would make the rest of the longer copy unreachable.
                return covered
            covered.append(self.ids[position - 1])
            self.ids[position - 1] = segment_id
            self.ends[position - 1] = end_offset
        else:
            self.starts.insert(position, start_offset)
            self.ends.insert(position, end_offset)
            self.ids.insert(position, segment_id)
        self.unreferenced.update(covered)
        self.unreferenced.discard(segment_id)
        if highest is None or end_offset > highest:
            self.highest_offset = end_offset
        return covered

    def start_delete(self, start_offset: int, segment_id: Uuid) -> None:
        position = bisect_right(self.starts, start_offset) - 1
        if (
            position >= 0
            and self.starts[position] == start_offset
            and self.ids[position] == segment_id
        ):
            del self.starts[position], self.ends[position], self.ids[position]
        self.unreferenced.add(segment_id)

    def serves(self, start_offset: int, segment_id: Uuid) -> bool:
        """Whether readers of this epoch use the segment."""
        position = bisect_right(self.starts, start_offset) - 1
        return position >= 0 and self.ids[position] == segment_id

    def find(self, offset: int) -> Uuid | None:
        """The segment that contains `offset`; of several, the one with the highest start offset."""
        if self.highest_offset is None or offset > self.highest_offset:
            return None
        position = bisect_right(self.starts, offset) - 1
        # Nearly always the first candidate has it; if segments overlap, an earlier one may have it.
        while position >= 0 and self.ends[position] < offset:
            position -= 1
        return self.ids[position] if position >= 0 else None


class RemoteLog:
    """The remote segments of one partition of one topic id."""

    def __init__(self, topic_id_partition: TopicIdPartition) -> None:
        self.topic_id_partition = topic_id_partition
        self._segments: dict[Uuid, RemoteLogSegmentMetadata] = {}
        self._epochs: dict[int, _EpochState] = {}
        self._partition_delete_state: RemotePartitionDeleteState | None = None
        self._remover_id = -1
        self._finished_bytes = 0
        self._unfinished: dict[Uuid, None] = {}
        """Ids of segments that are being copied or deleted, in the order of their first events."""
        self._touched: set[Uuid] | None = None
        self._watcher: object = None
        self._aborting: dict[Uuid, int] = {}
        """End offsets of finished segments that may have aborted transactions (KIP-1058)."""

    @property
    def partition_delete_state(self) -> RemotePartitionDeleteState | None:
        """The state of the partition's deletion; None if it is not being deleted."""
        return self._partition_delete_state

    @property
    def remover_id(self) -> int:
        """The broker that deletes the partition: the first to mark it or the last to take over.

        All brokers apply the same events in the same order, so they agree. -1 if there is none.
        """
        return self._remover_id

    @property
    def finished_bytes(self) -> int:
        """Log bytes of all COPY_SEGMENT_FINISHED segments, of any lineage (KIP-852)."""
        return self._finished_bytes

    @property
    def is_unheard_of(self) -> bool:
        """Whether no event has ever been applied for this partition."""
        return not self._epochs and self._partition_delete_state is None

    def __len__(self) -> int:
        """The number of segments, in all states."""
        return len(self._segments)

    def image(self) -> RemoteLogImage:
        """The whole state, to be stored."""
        epochs = tuple(
            EpochImage(
                epoch,
                state.highest_offset,
                tuple(zip(state.starts, state.ends, state.ids, strict=True)),
            )
            for epoch, state in sorted(self._epochs.items())
        )
        segments = tuple(self._segments.values())
        return RemoteLogImage(segments, epochs, self._partition_delete_state, self._remover_id)

    def restore(self, image: RemoteLogImage) -> None:
        """Load the state from an image, before any event is applied."""
        assert self.is_unheard_of
        for segment in image.segments:
            announced = replace(segment, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)
            self.apply_copy_started(announced)
            if segment.state is not announced.state:
                self._transition(announced, segment)
        # Which segments are readable depends on the order of events, so the image lists them.
        for epoch, highest_offset, readable in image.epochs:
            state = self._epoch_state(epoch)
            segment_ids = state.unreferenced.union(state.ids)
            state.starts = [start for start, _, _ in readable]
            state.ends = [end for _, end, _ in readable]
            state.ids = [segment_id for _, _, segment_id in readable]
            state.unreferenced = segment_ids.difference(state.ids)
            state.highest_offset = highest_offset
        self._partition_delete_state = image.partition_delete_state
        self._remover_id = image.remover_id

    def apply_copy_started(self, metadata: RemoteLogSegmentMetadata) -> Applied:
        """Apply a COPY_SEGMENT_STARTED event: a leader is about to copy a segment."""
        assert metadata.topic_id_partition == self.topic_id_partition
        segment = self._segments.get(metadata.id)
        if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            return Applied.INVALID_TRANSITION
        if not is_valid_segment_transition(segment.state if segment else None, metadata.state):
            return Applied.INVALID_TRANSITION
        if segment is not None:
            return Applied.YES
        for epoch, _ in metadata.segment_leader_epochs:
            self._epoch_state(epoch).unreferenced.add(metadata.id)
        self._segments[metadata.id] = metadata
        self._unfinished[metadata.id] = None
        return Applied.YES

    def apply_update(self, update: RemoteLogSegmentMetadataUpdate) -> Applied:
        """Apply a change of a segment's state."""
        segment = self._segments.get(update.segment_id.id)
        if segment is None:
            return Applied.UNKNOWN_SEGMENT
        if not is_valid_segment_transition(segment.state, update.state):
            return Applied.INVALID_TRANSITION
        self._transition(segment, segment.updated(update))
        return Applied.YES

    def apply_partition_delete(
        self, state: RemotePartitionDeleteState, broker_id: int = -1
    ) -> Applied:
        """Apply a state change of the partition's deletion, which a broker has sent."""
        if not is_valid_partition_delete_transition(self._partition_delete_state, state):
            return Applied.INVALID_TRANSITION
        if state is not self._partition_delete_state or (
            state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED
        ):
            self._remover_id = broker_id
        self._partition_delete_state = state
        return Applied.YES

    def _transition(
        self, before: RemoteLogSegmentMetadata, after: RemoteLogSegmentMetadata
    ) -> None:
        self._segments[after.id] = after
        if before.state is after.state:
            return
        self._touch([after.id])
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        size = after.segment_size_bytes
        self._finished_bytes += size * ((after.state is finished) - (before.state is finished))
        for epoch, start_offset, end_offset in after.epoch_ranges():
            state = self._epoch_state(epoch)
            if after.state is finished:
                self._touch(state.finish_copy(start_offset, after.id, end_offset))
            elif after.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                state.start_delete(start_offset, after.id)
                self._restore_covered(epoch, state)
            else:
                state.unreferenced.discard(after.id)
        if after.state is finished and not after.txn_index_empty:
            self._aborting[after.id] = after.end_offset
        else:
            self._aborting.pop(after.id, None)
        if after.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            self._unfinished[after.id] = None
        else:
            self._unfinished.pop(after.id, None)
        if after.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[after.id]

    def _restore_covered(self, epoch: int, state: _EpochState) -> None:
        """Once a segment's deletion has begun, make the segments that it covered readable again."""
        covered = [
            segment
            for segment in map(self._segments.__getitem__, state.unreferenced)
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        for segment in sorted(covered, key=lambda each: (each.start_offset, each.id)):
            start_offset = dict(segment.segment_leader_epochs)[epoch]
            state.finish_copy(start_offset, segment.id, segment.end_offset_of_epoch(epoch))
        self._touch(segment.id for segment in covered)

    def _touch(self, segment_ids: Iterable[Uuid]) -> None:
        if self._touched is not None:
            self._touched.update(segment_ids)
            if len(self._touched) > max(2 * len(self._segments), _TOUCHED_MAX):
                # Too many have accumulated: the next call of `take_touched` returns None.
                self._touched = None

    def take_touched(self, watcher: object) -> set[Uuid] | None:
        """The segments that became readable or unreadable since this watcher's last call.

        The result may include unchanged segments. It is None if any segment may have changed: on
        the first call, after a call by another watcher, or after too many changes.
        """
        touched = self._touched if watcher is self._watcher else None
        self._touched, self._watcher = set(), watcher
        return touched

    def _epoch_state(self, epoch: int) -> _EpochState:
        state = self._epochs.get(epoch)
        if state is None:
            state = self._epochs[epoch] = _EpochState()
        return state

    def segment(self, segment_id: Uuid) -> RemoteLogSegmentMetadata | None:
        """The metadata of a segment in any state; None if unknown."""
        return self._segments.get(segment_id)

    def segment_for(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The readable segment that contains this offset in this epoch; None if there is none."""
        state = self._epochs.get(leader_epoch)
        segment_id = state.find(offset) if state else None
        return None if segment_id is None else self._segments[segment_id]

    def serves(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether readers use the segment: it is finished, and no other segment covers it."""
        return any(
            self._epochs[epoch].serves(start_offset, segment.id)
            for epoch, start_offset in segment.segment_leader_epochs
        )

    @property
    def aborted_transactions_end(self) -> int:
        """The highest end offset of the segments that may have aborted transactions; -1 if none."""
        return max(self._aborting.values(), default=-1)

    def highest_offset_for_epoch(self, epoch: int) -> int | None:
        """The highest offset of this epoch ever copied to the tier; None if there is none."""
        state = self._epochs.get(epoch)
        return state.highest_offset if state else None

    def epochs(self) -> list[int]:
        """The leader epochs of all segments ever started, ascending."""
        return sorted(self._epochs)

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """All segments in all states, in the order of their first events."""
        return list(self._segments.values())

    def unfinished_segments(self) -> list[RemoteLogSegmentMetadata]:
        """Segments whose copy or deletion has begun but is not finished."""
        return [self._segments[segment_id] for segment_id in self._unfinished]

    def segments_for_epoch(self, epoch: int) -> list[RemoteLogSegmentMetadata]:
        """The segments with records of an epoch, in all states, ordered by start offset."""
        state = self._epochs.get(epoch)
        if state is None:
            return []
        segments = (self._segments[each] for each in (*state.ids, *state.unreferenced))
        return sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset))
