"""The EndQuorumEpoch request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int32
from .raft_endpoints import LeaderEndpoint


class ReplicaInfo(Struct):
    """A voter by its id and directory id."""

    candidate_id: int32 = field("1+")
    candidate_directory_id: Uuid = field("1+")


class PartitionData(Struct):
    """The leader, and the voters by how far they have fetched, the furthest first."""

    partition_index: int32 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    preferred_successors: list[int32] = field("0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", ignorable=True)


class TopicData(Struct):
    """The metadata topic."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class EndQuorumEpochRequest(Message, key=54, versions="0-1", flexible="1+"):
    """The leader that resigns, and who should follow it."""

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    topics: list[TopicData] = field("0+")
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)
