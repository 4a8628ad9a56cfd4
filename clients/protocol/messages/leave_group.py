"""LeaveGroup (key 13): members leave a classic group.

Versions: 1 throttle time; 3 several members in one request, including static ones (KIP-345);
4 flexible; 5 a reason (KIP-800).
"""

from ..schema import Message, Struct, field, int16, int32


class MemberIdentity(Struct):
    """One member, by id or, if static, by instance id."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    reason: str | None = field("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    """The leaving members: one up to version 2, several from 3 on."""

    group_id: str = field("0+")
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberResponse(Struct):
    """Whether one member has left."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+")
    error_code: int16 = field("3+")


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    """The result for each member."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    members: list[MemberResponse] = field("3+")
