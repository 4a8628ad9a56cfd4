"""CreateTopics (key 19), versions 2-7: decided by the controller, topic by topic.

4 lets the broker choose counts (KIP-464), 5 shows what was created (KIP-525), 7 tells topic ids.
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: CreateTopicsRequest
) -> Coroutine[object, object, CreateTopicsResponse]:
    """Pass the request on; the answer comes when its records are committed."""
    return broker.controller.create_topics(request, context.charge_partitions)
