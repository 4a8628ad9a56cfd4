"""DeleteTopics (key 20), versions 1-6: decided by the controller, topic by topic.

5 tells messages, 6 names topics by name or id in one list. The controller speaks of topics as 6
does, so older requests are rewritten.
"""

from collections.abc import Coroutine

from ...clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DeleteTopicsRequest
) -> Coroutine[object, object, DeleteTopicsResponse]:
    """Pass the request on; the answer comes when its records are committed."""
    return broker.controller.delete_topics(request, context.charge_partitions)
