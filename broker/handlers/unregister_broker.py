"""UnregisterBroker (key 64), version 0: forget a broker that will not come back (KIP-631).

The broker that answers cannot be forgotten, which Apache Kafka allows and then does not recover
from.
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
    """Forget it; the answer comes when its records are committed."""
    try:
        await broker.controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
    return UnregisterBrokerResponse(error_message=None)
