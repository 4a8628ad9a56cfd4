"""The id, metadata and states of a remote log segment (KIP-405).

The metadata alone determines what is in the tier: readers ignore the objects of a segment that
never reached COPY_SEGMENT_FINISHED. A segment is deleted in two steps, so that after a crash
between them the metadata still shows the unfinished deletion.

               (none)
                 |
                 v
    COPY_SEGMENT_STARTED -----> COPY_SEGMENT_FINISHED
                 |                     |
                 v                     v
         DELETE_SEGMENT_STARTED <------+
                 |
                 v
         DELETE_SEGMENT_FINISHED

Each state may follow itself, because retries repeat events. A partition of a deleted topic has its
own states (MARKED, STARTED, FINISHED) in the same metadata topic.

The names are those of `RemoteLogSegmentMetadata`, `RemoteLogSegmentState` and
`RemotePartitionDeleteState`. Offsets are inclusive at both ends. The epoch map of a segment covers
exactly [start_offset, end_offset]: its first entry is clamped to the start offset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from ...clients.topic_partition import TopicIdPartition

MAX_SEGMENT_BYTES = 0x7FFF_FFFF
"""The metadata record stores the size as an int32, so a segment of 2 GiB cannot be tiered."""


class RemoteLogSegmentState(IntEnum):
    """The states of a remote segment, numbered as in the metadata records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """The states of deleting a partition's remote data after its topic was deleted."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


_Segment = RemoteLogSegmentState
SEGMENT_TRANSITIONS: Mapping[_Segment | None, frozenset[_Segment]] = {
    None: frozenset({_Segment.COPY_SEGMENT_STARTED}),
    _Segment.COPY_SEGMENT_STARTED: frozenset(
        {
            _Segment.COPY_SEGMENT_STARTED,
            _Segment.COPY_SEGMENT_FINISHED,
            _Segment.DELETE_SEGMENT_STARTED,
        }
    ),
    _Segment.COPY_SEGMENT_FINISHED: frozenset(
        {_Segment.COPY_SEGMENT_FINISHED, _Segment.DELETE_SEGMENT_STARTED}
    ),
    _Segment.DELETE_SEGMENT_STARTED: frozenset(
        {_Segment.DELETE_SEGMENT_STARTED, _Segment.DELETE_SEGMENT_FINISHED}
    ),
    _Segment.DELETE_SEGMENT_FINISHED: frozenset({_Segment.DELETE_SEGMENT_FINISHED}),
}
"""The states that may follow each state (None: no metadata yet)."""

_Partition = RemotePartitionDeleteState
PARTITION_DELETE_TRANSITIONS: Mapping[_Partition | None, frozenset[_Partition]] = {
    None: frozenset({_Partition.DELETE_PARTITION_MARKED}),
    _Partition.DELETE_PARTITION_MARKED: frozenset(
        {_Partition.DELETE_PARTITION_MARKED, _Partition.DELETE_PARTITION_STARTED}
    ),
    _Partition.DELETE_PARTITION_STARTED: frozenset(
        {_Partition.DELETE_PARTITION_STARTED, _Partition.DELETE_PARTITION_FINISHED}
    ),
    _Partition.DELETE_PARTITION_FINISHED: frozenset({_Partition.DELETE_PARTITION_FINISHED}),
}


class RemoteLogSegmentId(NamedTuple):
    """The id of one copy of a segment; each attempt to copy a segment gets a new id."""

    topic_id_partition: TopicIdPartition
    id: Uuid

    def __str__(self) -> str:
        return f"{self.topic_id_partition}:{uuid_to_string(self.id)}"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadata:
    """The complete metadata of one remote segment.

    The constructor raises KafkaError(INVALID_RECORD) for impossible values, which another
    implementation may have written to the metadata topic.
    """

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    """The last offset in the segment, inclusive."""
    max_timestamp_ms: int
    """The largest record timestamp; -1 if no record has one."""
    broker_id: int
    event_timestamp_ms: int
    segment_size_bytes: int
    """The size of the log object alone, without its indexes."""
    segment_leader_epochs: tuple[tuple[int, int], ...]
    """(leader epoch, its first offset in this segment), epochs and offsets ascending."""
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    custom_metadata: bytes | None = None
    """Bytes returned by the remote storage manager's copy, passed to its later calls (KIP-917)."""
    txn_index_empty: bool = False
    """Whether no aborted transaction ends in this segment, so no index is fetched (KIP-1058)."""

    def __post_init__(self) -> None:
        if self.start_offset < 0:
            raise _invalid(f"Unexpected start offset {self.start_offset}, it must not be negative")
        if self.end_offset < self.start_offset:
            raise _invalid(
                f"Unexpected end offset {self.end_offset}, "
                f"it must not be less than the start offset {self.start_offset}"
            )
        if not 0 <= self.segment_size_bytes <= MAX_SEGMENT_BYTES:
            raise _invalid(
                f"A remote segment of {self.segment_size_bytes} bytes exceeds the maximum size "
                f"in its metadata, {MAX_SEGMENT_BYTES}"
            )
        _check_epochs(self.segment_leader_epochs)

    @property
    def id(self) -> Uuid:
        return self.segment_id.id

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.segment_id.topic_id_partition

    def end_offset_of_epoch(self, epoch: int) -> int:
        """The last offset of an epoch in this segment, which must contain the epoch."""
        for later_epoch, start_offset in self.segment_leader_epochs:
            if later_epoch > epoch:
                return start_offset - 1
        return self.end_offset

    def epoch_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Each epoch with its first and last offset in this segment."""
        epochs = self.segment_leader_epochs
        for (epoch, start_offset), (_, next_start) in pairwise(epochs):
            yield epoch, start_offset, next_start - 1
        yield *epochs[-1], self.end_offset

    def updated(self, update: "RemoteLogSegmentMetadataUpdate") -> "RemoteLogSegmentMetadata":
        """This metadata after an update; custom metadata is kept unless the update has its own."""
        assert update.segment_id == self.segment_id
        return replace(
            self,
            state=update.state,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=(
                self.custom_metadata if update.custom_metadata is None else update.custom_metadata
            ),
        )


def _check_epochs(epochs: tuple[tuple[int, int], ...]) -> None:
    if not epochs:
        raise _invalid("A remote segment must have the leader epochs of its records")
    previous_epoch = previous_offset = -1
    for epoch, start_offset in epochs:
        if epoch <= previous_epoch or start_offset < previous_offset:
            raise _invalid(f"The leader epochs {epochs} of a remote segment are not in order")
        previous_epoch, previous_offset = epoch, start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadataUpdate:
    """A state change of a segment that already has metadata."""

    segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    broker_id: int
    custom_metadata: bytes | None = None

    def __post_init__(self) -> None:
        if self.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            raise _invalid("An update without the full metadata cannot be COPY_SEGMENT_STARTED")

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.segment_id.topic_id_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePartitionDeleteMetadata:
    """A state change in the deletion of a partition's remote data."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int

    def __post_init__(self) -> None:
        if self.topic_id_partition.topic_id == ZERO_UUID:
            raise _invalid("Remote data belongs to a topic id, which must not be zero")


RemoteLogMetadata = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
)
"""The content of one record of the metadata topic."""


def is_valid_segment_transition(
    current: RemoteLogSegmentState | None, target: RemoteLogSegmentState
) -> bool:
    """Whether a segment in state `current` (None: no metadata yet) may enter `target`."""
    return target in SEGMENT_TRANSITIONS[current]


def is_valid_partition_delete_transition(
    current: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState
) -> bool:
    """Whether a partition's deletion may go from `current` (None: not begun) to `target`."""
    return target in PARTITION_DELETE_TRANSITIONS[current]
