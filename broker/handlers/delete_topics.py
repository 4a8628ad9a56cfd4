"""DeleteTopics (key 20), versions 1-6: deletes topics. The controller decides topic by topic.

The controller converts requests of older versions to the form of v6.

v4: flexible
v5: error messages; may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6: topics by name or id, in one list
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DeleteTopicsRequest
) -> Coroutine[object, object, DeleteTopicsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    return broker.controller.delete_topics(request, context.charge_partitions)
