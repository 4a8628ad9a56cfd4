"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

4 filters by state (KIP-518), 5 by type (KIP-848). While a partition of the offsets topic is being
loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, since part of a list would look like all of it.
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
    """List."""
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
