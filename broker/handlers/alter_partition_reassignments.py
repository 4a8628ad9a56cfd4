"""AlterPartitionReassignments (key 45), versions 0-1: decided by the controller (KIP-455).

1 can forbid a change of the replication factor (KIP-860). Brokers that are not registered are
refused, as Kafka does; so with one broker a partition can only stay where it is.
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Coroutine[object, object, AlterPartitionReassignmentsResponse]:
    """Pass the request on; the answer comes when its records are committed."""
    return broker.controller.alter_partition_reassignments(request)
