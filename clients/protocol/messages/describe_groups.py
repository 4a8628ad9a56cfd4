"""DescribeGroups (key 15): the state and the members of classic groups.

Versions: 1 throttle time; 3 authorized operations (KIP-430); 4 instance ids (KIP-345); 5 flexible;
6 an error code and message for a missing group (KIP-1043).
"""

from ..schema import Message, Struct, field, int16, int32


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    """The groups to describe."""

    groups: list[str] = field("0+")
    include_authorized_operations: bool = field("3+")


class DescribedGroupMember(Struct):
    """One member; metadata and assignment are set only if the group is stable."""

    member_id: str = field("0+")
    group_instance_id: str | None = field("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field("0+")
    client_host: str = field("0+")
    member_metadata: bytes = field("0+")
    member_assignment: bytes = field("0+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int16 = field("0+")
    error_message: str | None = field("6+", nullable="6+", default=None)
    group_id: str = field("0+")
    group_state: str = field("0+")
    protocol_type: str = field("0+")
    protocol_data: str = field("0+")
    members: list[DescribedGroupMember] = field("0+")
    authorized_operations: int32 = field("3+", default=-2147483648)


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    """The groups."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    groups: list[DescribedGroup] = field("0+")
