"""Vote (key 52): asks a voter of the metadata quorum for its vote (KIP-595).

Versions: 1 voter ids, directory ids and the leader's address (KIP-853); 2 pre-votes (KIP-996).
"""

from ..schema import Message, Struct, field, int16, int32
from .raft_endpoints import NodeEndpoint
from .vote_request import VoteRequest as VoteRequest


class PartitionData(Struct):
    """The answer; the leader is -1 if it is not known."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    vote_granted: bool = field("0+")


class TopicData(Struct):
    """The metadata topic."""

    topic_name: str = field("0+")
    partitions: list[PartitionData] = field("0+")


class VoteResponse(Message, key=52, versions="0-2", flexible="0+"):
    """Whether the vote is granted, and the leader that the voter knows."""

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
