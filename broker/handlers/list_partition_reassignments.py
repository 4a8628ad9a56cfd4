"""ListPartitionReassignments (key 46), version 0: which partitions are on the move (KIP-455)."""

from ...clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ...replication.controller.reassignment import list_reassignments
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List."""
    return list_reassignments(broker.controller.image, request)
