"""UnregisterBroker (key 64), version 0: removes a broker that will not come back (KIP-631).

The broker that serves the request cannot be removed. Apache Kafka allows that, but does not recover
from it.
"""

from ...clients.errors import KafkaError
from ...clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ..request.context import BrokerContext, RequestContext


async def handle(
    broker: BrokerContext, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Remove the broker; the response is sent once the records are committed."""
    try:
        await broker.controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
    return UnregisterBrokerResponse(error_message=None)
