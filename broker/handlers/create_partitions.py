"""CreatePartitions (key 37), versions 0-3: adds partitions. The controller decides topic by topic.

The controller does not hear of topics that the client may not alter.

v2: flexible
v3: may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from collections import Counter
from collections.abc import Coroutine

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ...security.access import ALTER, TOPIC, Access, access_of
from ..request.context import NodeContext, RequestContext


def handle(
    node: NodeContext, context: RequestContext, request: CreatePartitionsRequest
) -> Coroutine[object, object, CreatePartitionsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    access = access_of(node, context)
    if access is not None:
        return _add_to_allowed(node, context, request, access)
    return node.controller.create_partitions(request, context.charge_partitions)


async def _add_to_allowed(
    node: NodeContext, context: RequestContext, request: CreatePartitionsRequest, access: Access
) -> CreatePartitionsResponse:
    """Add to what the client may alter. A name that stands twice is the controller's matter."""
    times = Counter(topic.name for topic in request.topics)
    names = [each for each in times if times[each] == 1]
    denied = {*names} - access.allowed(ALTER, TOPIC, names)
    rest = CreatePartitionsRequest(
        topics=[topic for topic in request.topics if topic.name not in denied],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    response = await node.controller.create_partitions(rest, context.charge_partitions)
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name in names
        if name in denied
    ]
    response.results = [*refused, *response.results]
    return response
