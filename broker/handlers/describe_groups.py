"""DescribeGroups (key 15), versions 0-6: the state and the members of classic groups.

A group that does not exist, or is a consumer group, has the state Dead.

v1: throttle time
v3: authorized operations, on request (KIP-430)
v4: group instance ids
v5: flexible
v6: a Dead group also has the error GROUP_ID_NOT_FOUND and an error message (KIP-1043)
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ...coordinator.group.group_coordinator import GroupCoordinator
from ...security.access import DESCRIBE, GROUP, access_of
from ..request.authorized_operations import OPERATIONS_NOT_REQUESTED, group_operations
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_FIRST_KNOWING_GROUP_ID_NOT_FOUND = 6


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe each group; those that the client may not describe come first, as in Kafka."""
    coordinator = broker.group_coordinator
    access = access_of(broker, context)
    names = request.groups
    allowed = None if access is None else access.allowed(DESCRIBE, GROUP, names)
    if allowed is not None:
        names = sorted(names, key=allowed.__contains__)

    def describe(group_id: str) -> DescribedGroup:
        if allowed is not None and group_id not in allowed:
            return DescribedGroup(
                group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
        group = _describe(coordinator, group_id, context.api_version)
        has_operations = request.include_authorized_operations and not group.error_code
        group.authorized_operations = (
            group_operations(access, group_id) if has_operations else OPERATIONS_NOT_REQUESTED
        )
        return group

    return DescribeGroupsResponse(groups=lazy_list(describe, names))


def _describe(coordinator: GroupCoordinator, group_id: str, version: int) -> DescribedGroup:
    error, group = coordinator.describe_group(group_id)
    message = None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version < _FIRST_KNOWING_GROUP_ID_NOT_FOUND:
            error = ErrorCode.NONE
        else:
            is_consumer = coordinator.describe_consumer_group(group_id)[0] is ErrorCode.NONE
            what = "is not a classic group" if is_consumer else "not found"
            message = f"Group {group_id} {what}."
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
