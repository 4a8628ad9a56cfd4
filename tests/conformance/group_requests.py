"""Shared by tests: requests that administer groups."""

from tierlog.clients.protocol.messages.delete_groups import DeleteGroupsRequest
from tierlog.clients.protocol.messages.describe_groups import DescribeGroupsRequest
from tierlog.clients.protocol.messages.list_groups import ListGroupsRequest
from tierlog.clients.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from .twins import (
    Ask,
)


def listing(states: list[str] | None = None, types: list[str] | None = None) -> Ask:
    return lambda _: ListGroupsRequest(states_filter=states or [], types_filter=types or [])


def describing(*group_ids: str, operations: bool = False) -> Ask:
    return lambda _: DescribeGroupsRequest(
        groups=list(group_ids), include_authorized_operations=operations
    )


def deleting(*group_ids: str) -> Ask:
    return lambda _: DeleteGroupsRequest(groups_names=list(group_ids))


def deleting_offsets(group_id: str, **topics: list[int]) -> Ask:
    return lambda _: OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=partition)
                    for partition in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )
