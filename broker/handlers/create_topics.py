"""CreateTopics (key 19), versions 2-7: creates topics. The controller decides topic by topic.

The controller does not hear of topics that the client may not create. Of a new topic whose
configuration the client may not describe, only the name and the id are shown.

v4: a count of -1 means the broker's default (KIP-464)
v5: flexible; returns the counts and configs of the new topics (KIP-525)
v6: may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
v7: returns topic ids
"""

from collections import Counter
from collections.abc import Coroutine

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...replication.metadata.metadata_log import METADATA_PARTITION
from ...security.access import CREATE, DESCRIBE_CONFIGS, TOPIC, Access, access_of
from ..request.context import NodeContext, RequestContext


def handle(
    node: NodeContext, context: RequestContext, request: CreateTopicsRequest
) -> Coroutine[object, object, CreateTopicsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    access = access_of(node, context)
    if access is not None:
        return _create_allowed(node, context, request, access)
    return node.controller.create_topics(request, context.charge_partitions)


async def _create_allowed(
    node: NodeContext, context: RequestContext, request: CreateTopicsRequest, access: Access
) -> CreateTopicsResponse:
    """Create what the client may create. A name that stands twice is the controller's matter."""
    times = Counter(topic.name for topic in request.topics)
    names = [each for each in times if times[each] == 1 and each != METADATA_PARTITION.topic]
    denied: set[str] = set()
    if not access.allows_cluster(CREATE, audited=False):
        denied = {*names} - access.allowed(CREATE, TOPIC, names)
    shown = access.allowed(DESCRIBE_CONFIGS, TOPIC, names, audited=False)
    rest = CreateTopicsRequest(
        topics=[topic for topic in request.topics if topic.name not in denied],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    response = await node.controller.create_topics(rest, context.charge_partitions)
    for result in response.topics:
        if not result.error_code and result.name not in shown:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
    response.topics += [
        CreatableTopicResult(
            name=name,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="Authorization failed.",
        )
        for name in names
        if name in denied
    ]
    return response
