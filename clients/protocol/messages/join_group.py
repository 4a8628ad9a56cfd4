"""JoinGroup (key 11): a member joins a rebalance of a classic group.

Versions: 1 rebalance timeout; 2 throttle time; 4 members must first get an id (KIP-394); 5 static
members (KIP-345); 6 flexible; 7 protocol type in the response (KIP-559); 8 a reason (KIP-800); 9 a
static leader may skip the assignment (KIP-814).
"""

from ..schema import Message, Struct, field, int16, int32


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member supports, and its metadata for it."""

    name: str = field("0+")
    metadata: bytes = field("0+")


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    """A member, its timeouts and its protocols, in order of preference."""

    group_id: str = field("0+")
    session_timeout_ms: int32 = field("0+")
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", nullable="5+", default=None)
    protocol_type: str = field("0+")
    protocols: list[JoinGroupRequestProtocol] = field("0+")
    reason: str | None = field("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member's metadata for the chosen protocol; only the leader receives it."""

    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field("0+")


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    """The new generation, and its leader."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    error_code: int16 = field("0+")
    generation_id: int32 = field("0+", default=-1)
    protocol_type: str | None = field("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field("0+", nullable="7+")
    leader: str = field("0+")
    skip_assignment: bool = field("9+")
    member_id: str = field("0+")
    members: list[JoinGroupResponseMember] = field("0+")
