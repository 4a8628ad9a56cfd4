"""SyncGroup (key 14): the leader sends all assignments; every member receives its own.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible; 5 protocol type and name, checked
by both sides (KIP-559).
"""

from ..schema import Message, Struct, field, int16, int32


class SyncGroupRequestAssignment(Struct):
    """The leader's assignment for one member."""

    member_id: str = field("0+")
    assignment: bytes = field("0+")


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """A member's request for its assignment; the leader's contains all assignments."""

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    protocol_type: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field("0+")


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    """The member's own assignment."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    protocol_type: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field("0+")
