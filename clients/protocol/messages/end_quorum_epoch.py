"""EndQuorumEpoch (key 54): a leader of the metadata quorum resigns (KIP-595).

Versions: 1 flexible, candidates with directory ids, and the leader's addresses (KIP-853).
"""

from ..schema import Message, field, int16
from .begin_quorum_epoch import TopicData
from .end_quorum_epoch_request import EndQuorumEpochRequest as EndQuorumEpochRequest
from .raft_endpoints import NodeEndpoint


class EndQuorumEpochResponse(Message, key=54, versions="0-1", flexible="1+"):
    """The leader that the voter knows."""

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)
