"""CreatePartitions (key 37), versions 0-3: decided by the controller, topic by topic.

2 is the first flexible version; nothing else changed but error codes.
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
    """Pass the request on; the answer comes when its records are committed."""
    return broker.controller.create_partitions(request, context.charge_partitions)
