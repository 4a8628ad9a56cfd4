"""DeleteGroups (key 42): groups without members go, with their committed offsets.

Versions: 2 flexible.
"""

from ..schema import Message, Struct, field, int16, int32


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    """Which groups."""

    groups_names: list[str] = field("0+")


class DeletableGroupResult(Struct):
    """Whether one group is gone."""

    group_id: str = field("0+")
    error_code: int16 = field("0+")


class DeleteGroupsResponse(Message, key=42, versions="0-2", flexible="2+"):
    """Whether they are gone."""

    throttle_time_ms: int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")
