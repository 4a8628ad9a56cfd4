"""The BeginQuorumEpoch request; in its own module, as the response reuses its struct names."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int32
from .raft_endpoints import LeaderEndpoint


class PartitionData(Struct):
    """The leader, and the voter that receives this."""

    partition_index: int32 = field("0+")
    voter_directory_id: Uuid = field("1+", ignorable=True)
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class TopicData(Struct):
    """The metadata topic."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class BeginQuorumEpochRequest(Message, key=53, versions="0-1", flexible="1+"):
    """The leader of an epoch, and how to reach it."""

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("0+")
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)
