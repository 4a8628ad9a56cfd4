"""The output of `tierlog tier ls`: the partitions of a tier, their offsets, sizes and states.

A segment's state comes from the metadata topic, if it was read; a segment that the topic does not
have is `unknown`. From the bucket alone the state is `whole` (a manifest, and every object that it
names) or `incomplete`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...clients.kafka_uuid import uuid_to_string
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..store.object_keys import object_stem
from .stored_segments import StoredSegment
from .tier_survey import Survey

WHOLE = "whole"
INCOMPLETE = "incomplete"
UNKNOWN = "unknown"
"""The bucket has it, the metadata topic does not."""
GONE = "without objects"
"""The metadata topic has it, the bucket does not."""


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """One attempt to copy a segment."""

    segment_id: str
    start_offset: int
    end_offset: int | None
    """None if neither a manifest nor the metadata has it."""
    leader_epochs: tuple[tuple[int, int], ...]
    nbytes: int
    """The total size of its objects."""
    state: str
    key: str

    def fields(self) -> dict[str, object]:
        """The segment as JSON fields."""
        return {
            "segment_id": self.segment_id,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "leader_epochs": [list(leader_epoch) for leader_epoch in self.leader_epochs],
            "bytes": self.nbytes,
            "state": self.state,
            "key": self.key,
        }


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """One partition of one incarnation of a topic."""

    topic_id_partition: TopicIdPartition
    segments: list[ListedSegment] = field(default_factory=list[ListedSegment])

    @property
    def start_offset(self) -> int:
        return min(segment.start_offset for segment in self.segments)

    @property
    def end_offset(self) -> int | None:
        return max(
            (segment.end_offset for segment in self.segments if segment.end_offset is not None),
            default=None,
        )

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    @property
    def states(self) -> str:
        """The number of segments in each state."""
        counted = Counter(segment.state for segment in self.segments)
        return ", ".join(f"{count} {state}" for state, count in sorted(counted.items()))

    def fields(self) -> dict[str, object]:
        """The partition as JSON fields."""
        topic_id, topic, partition = self.topic_id_partition
        return {
            "topic": topic,
            "topic_id": uuid_to_string(topic_id),
            "partition": partition,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "bytes": self.nbytes,
            "segments": [segment.fields() for segment in self.segments],
        }


def list_contents(
    survey: Survey, remote_logs: Mapping[TopicIdPartition, RemoteLog] | None
) -> list[ListedPartition]:
    """The partitions by topic and number, with their segments by start offset.

    `remote_logs` comes from the metadata topic; None if it was not read.
    """
    partitions: dict[TopicIdPartition, ListedPartition] = {}

    def add(partition: TopicIdPartition, segment: ListedSegment) -> None:
        partitions.setdefault(partition, ListedPartition(partition)).segments.append(segment)

    for stored in survey.listing.segments.values():
        add(stored.topic_id_partition, _listed_segment(stored, survey, remote_logs))
    for partition, remote in (remote_logs or {}).items():
        for metadata in remote.segments():
            if object_stem(metadata) not in survey.listing.segments:
                add(partition, _without_objects(metadata))
    listed = sorted(
        partitions.values(), key=lambda each: (*each.topic_id_partition[1:], each.nbytes)
    )
    for each in listed:
        each.segments.sort(key=lambda segment: (segment.start_offset, segment.segment_id))
    return listed


def _listed_segment(
    stored: StoredSegment, survey: Survey, remote_logs: Mapping[TopicIdPartition, RemoteLog] | None
) -> ListedSegment:
    manifest = survey.manifests.get(stored.stem)
    metadata = None if manifest is None else manifest.metadata
    state = INCOMPLETE if manifest is None else WHOLE
    if remote_logs is not None:
        remote = remote_logs.get(stored.topic_id_partition)
        topic_metadata = None if remote is None else remote.segment(stored.segment_id)
        metadata = topic_metadata or metadata
        state = UNKNOWN if topic_metadata is None else topic_metadata.state.name
    return ListedSegment(
        uuid_to_string(stored.segment_id),
        stored.start_offset,
        None if metadata is None else metadata.end_offset,
        () if metadata is None else metadata.segment_leader_epochs,
        stored.nbytes,
        state,
        stored.stem,
    )


def _without_objects(metadata: RemoteLogSegmentMetadata) -> ListedSegment:
    return ListedSegment(
        uuid_to_string(metadata.id),
        metadata.start_offset,
        metadata.end_offset,
        metadata.segment_leader_epochs,
        0,
        f"{metadata.state.name} {GONE}",
        "",
    )
