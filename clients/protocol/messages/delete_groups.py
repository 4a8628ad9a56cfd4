"""DeleteGroups (key 42): deletes groups without members, and their committed offsets.

Versions: 2 flexible.
"""

from ..schema import Message, Struct, field, int16, int32


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    """The groups to delete."""

    groups_names: list[str] = field("0+")


class DeletableGroupResult(Struct):
    """Whether one group was deleted."""

    group_id: str = field("0+")
    error_code: int16 = field("0+")


class DeleteGroupsResponse(Message, key=42, versions="0-2", flexible="2+"):
    """The result for each group."""

    throttle_time_ms: int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")
