"""UnregisterBroker (key 64), version 0: removes a broker that will not come back (KIP-631).

A process that is the whole cluster does not remove its only broker. Apache Kafka allows that, but
does not recover from it. In a cluster of several processes any broker can be removed, live or
fenced, as in Kafka.
"""

from ...clients.errors import KafkaError
from ...clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ..request.cluster_control import cluster_control
from ..request.context import NodeContext, RequestContext


async def handle(
    node: NodeContext, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Remove the broker; the response is sent once the records are committed."""
    try:
        if node.member is None:
            await node.controller.unregister_broker(request.broker_id)
        else:
            await cluster_control(node).unregister_broker(request.broker_id)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
    return UnregisterBrokerResponse()
