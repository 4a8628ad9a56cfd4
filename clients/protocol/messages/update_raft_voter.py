"""UpdateRaftVoter (key 82): a voter sends the leader its addresses and versions (KIP-853).

The only version is 0, which is flexible.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32
from .add_raft_voter import Listener as Listener
from .quorum_records import KRaftVersionFeature


class UpdateRaftVoterRequest(Message, key=82, versions="0", flexible="0+"):
    """The voter, its addresses, and the versions of kraft.version that it supports."""

    cluster_id: str | None = field("0+", nullable="0+")
    current_leader_epoch: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    kraft_version_feature: KRaftVersionFeature = field("0+")


class CurrentLeader(Struct):
    """The leader and its address; -1 if it is not known."""

    leader_id: int32 = field("0+", default=-1)
    leader_epoch: int32 = field("0+", default=-1)
    host: str = field("0+")
    port: int32 = field("0+")


class UpdateRaftVoterResponse(Message, key=82, versions="0", flexible="0+"):
    """Whether the voter was updated, and who leads."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    current_leader: CurrentLeader = field("0+", tag=0)
