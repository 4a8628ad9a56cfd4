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
from ...security.access import DESCRIBE, GROUP, access_of
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """List the groups that match the filters and that the client may describe."""
    error, groups = broker.group_coordinator.list_groups(
        request.states_filter, request.types_filter
    )
    access = access_of(broker, context)
    if access is not None and not access.allows_cluster(DESCRIBE, audited=False):
        names = (group.group_id for group in groups)
        shown = access.allowed(DESCRIBE, GROUP, names, audited=False)
        groups = [group for group in groups if group.group_id in shown]
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
