"""CreateTopics (key 19), versions 2-7: creates topics. The controller decides topic by topic.

v4: a count of -1 means the broker's default (KIP-464)
v5: flexible; returns the counts and configs of the new topics (KIP-525)
v6: may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7: returns topic ids
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: CreateTopicsRequest
) -> Coroutine[object, object, CreateTopicsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    return broker.controller.create_topics(request, context.charge_partitions)
