"""FetchSnapshot (key 59): a part of a snapshot of the metadata log (KIP-630).

Versions: 1 directory ids and the leader's address (KIP-853).
"""

from ..schema import Message, Records, Struct, field, int16, int32, int64
from .fetch_snapshot_request import (
    FetchSnapshotRequest as FetchSnapshotRequest,
    SnapshotId as SnapshotId,
)
from .raft_endpoints import NodeEndpoint


class LeaderIdAndEpoch(Struct):
    """The leader that the replica knows."""

    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class PartitionSnapshot(Struct):
    """The bytes from a position, which may begin and end within a batch; `size` is the whole's."""

    index: int32 = field("0+")
    error_code: int16 = field("0+")
    snapshot_id: SnapshotId = field("0+")
    current_leader: LeaderIdAndEpoch = field("0+", tag=0)
    size: int64 = field("0+")
    position: int64 = field("0+")
    unaligned_records: Records = field("0+")


class TopicSnapshot(Struct):
    """The metadata topic."""

    name: str = field("0+")
    partitions: list[PartitionSnapshot] = field("0+")


class FetchSnapshotResponse(Message, key=59, versions="0-1", flexible="0+"):
    """Bytes of the snapshot."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    topics: list[TopicSnapshot] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
