"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

While a partition of the offsets topic is loading, the error is COORDINATOR_LOAD_IN_PROGRESS,
because clients could not recognise an incomplete list.

v1: throttle time
v3: flexible
v4: states, and a filter by state (KIP-518)
v5: types, and a filter by type (KIP-848)
"""

from ...clients.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """List the groups that match the filters."""
    error, groups = broker.group_coordinator.list_groups(
        request.states_filter, request.types_filter
    )
    return ListGroupsResponse(
        error_code=error,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
        ],
    )
