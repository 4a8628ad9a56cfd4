"""ListGroups (key 16): the groups that one broker coordinates.

Versions: 1 throttle time; 3 flexible; 4 states (KIP-518); 5 types (KIP-848).
"""

from ..schema import Message, Struct, field, int16, int32


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    """The filters; an empty one matches all groups."""

    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListedGroup(Struct):
    """One group."""

    group_id: str = field("0+")
    protocol_type: str = field("0+")
    group_state: str = field("4+", ignorable=True)
    group_type: str = field("5+", ignorable=True)


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    """The groups."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    groups: list[ListedGroup] = field("0+")
