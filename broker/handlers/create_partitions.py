"""CreatePartitions (key 37), versions 0-3: adds partitions. The controller decides topic by topic.

v2: flexible
v3: may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: CreatePartitionsRequest
) -> Coroutine[object, object, CreatePartitionsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    return broker.controller.create_partitions(request, context.charge_partitions)
