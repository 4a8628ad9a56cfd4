"""AlterPartitionReassignments (key 45), versions 0-1: moves replicas between brokers (KIP-455).

The controller decides. Brokers that are not registered are refused, as in Kafka; so in a cluster of
one broker, a partition can only stay where it is.

v1: the client may forbid a change of the replication factor (KIP-860)
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
    """Pass the request to the controller; it responds once the records are committed."""
    return broker.controller.alter_partition_reassignments(request)
