"""BeginQuorumEpoch (key 53): a new quorum leader announces itself to the voters (KIP-595).

Versions: 1 flexible, directory ids and the leader's addresses (KIP-853).
"""

from ..schema import Message, Struct, field, int16, int32
from .begin_quorum_epoch_request import BeginQuorumEpochRequest as BeginQuorumEpochRequest
from .raft_endpoints import NodeEndpoint


class PartitionData(Struct):
    """The answer; the leader is -1 if it is not known."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class TopicData(Struct):
    """The metadata topic."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class BeginQuorumEpochResponse(Message, key=53, versions="0-1", flexible="1+"):
    """The leader that the voter knows."""

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
