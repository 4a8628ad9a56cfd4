"""ListPartitionReassignments (key 46), version 0: the reassignments in progress (KIP-455)."""

from ...clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ...replication.control.leadership.reassignment import list_reassignments
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the reassignments in the cluster image."""
    return list_reassignments(broker.controller.image, request)
