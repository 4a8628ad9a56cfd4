"""The FetchSnapshot request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int32, int64


class SnapshotId(Struct):
    """A snapshot: the offset behind its last record, and that record's epoch."""

    end_offset: int64 = field("0+")
    epoch: int32 = field("0+")


class PartitionSnapshot(Struct):
    """The snapshot and the position of its next byte."""

    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("0+")
    snapshot_id: SnapshotId = field("0+")
    position: int64 = field("0+")
    replica_directory_id: Uuid = field("1+", tag=0, ignorable=True)


class TopicSnapshot(Struct):
    """The metadata topic."""

    name: str = field("0+")
    partitions: list[PartitionSnapshot] = field("0+")


class FetchSnapshotRequest(Message, key=59, versions="0-1", flexible="0+"):
    """The snapshot to be read, and from where."""

    cluster_id: str | None = field("0+", nullable="0+", tag=0, default=None)
    replica_id: int32 = field("0+", default=-1)
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = field("0+")
