"""DeleteTopics (key 20), versions 1-6: deletes topics. The controller decides topic by topic.

The controller converts requests of older versions to the form of v6. It does not hear of topics
that the client may not delete. A topic that the client may not even describe is refused alike
whether it exists or not; one that is named by its id keeps its name to itself. With an authorizer
the results come in random order, as their order would show which are refusals.

v4: flexible
v5: error messages; may return THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6: topics by name or id, in one list
"""

from collections import Counter
from collections.abc import Coroutine

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...clients.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...replication.metadata.cluster_image import ClusterImage
from ...security.access import DELETE, DESCRIBE, TOPIC, Access, access_of
from ..request.context import NodeContext, RequestContext

_MESSAGE = "Topic authorization failed."
"""Kafka's message of TOPIC_AUTHORIZATION_FAILED."""


def handle(
    node: NodeContext, context: RequestContext, request: DeleteTopicsRequest
) -> Coroutine[object, object, DeleteTopicsResponse]:
    """Pass the request to the controller; it responds once the records are committed."""
    access = access_of(node, context)
    # Where nothing may be deleted, the controller says so first.
    if access is not None and node.config.values.boolean("delete.topic.enable"):
        return _delete_allowed(node, context, request, access)
    return node.controller.delete_topics(request, context.charge_partitions)


async def _delete_allowed(
    node: NodeContext, context: RequestContext, request: DeleteTopicsRequest, access: Access
) -> DeleteTopicsResponse:
    """Delete what the client may delete."""
    states = [
        *request.topics,
        *(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names),
    ]
    denied = _denied_results(node.controller.image, states, access)
    rest = DeleteTopicsRequest(
        topics=[state for state in states if (state.name, state.topic_id) not in denied],
        timeout_ms=request.timeout_ms,
    )
    response = await node.controller.delete_topics(rest, context.charge_partitions)
    response.responses += denied.values()
    node.environment.random.shuffle(response.responses)
    return response


def _denied_results(
    image: ClusterImage, states: list[DeleteTopicState], access: Access
) -> dict[tuple[str | None, Uuid], DeletableTopicResult]:
    """The refusals, by the name and the id that a topic was named by.

    What stands twice, or has both or neither, is the controller's matter: it is refused, and names
    no topic.
    """
    if access.allows_cluster(DELETE, audited=False):
        return {}
    times = Counter((state.name, state.topic_id) for state in states)
    named: dict[tuple[str | None, Uuid], str] = {}
    for name, topic_id in (each for each in times if times[each] == 1):
        if name is not None and topic_id == ZERO_UUID:
            named[name, topic_id] = name
        elif name is None and (topic := image.topics_by_id.get(topic_id)) is not None:
            named[name, topic_id] = topic.name
    described = access.allowed(DESCRIBE, TOPIC, named.values())
    deletable = access.allowed(DELETE, TOPIC, named.values())
    denied: dict[tuple[str | None, Uuid], DeletableTopicResult] = {}
    for (name, topic_id), real_name in named.items():
        is_absent = real_name in described and real_name not in image.topics_by_name
        if not is_absent and (real_name not in described or real_name not in deletable):
            denied[name, topic_id] = DeletableTopicResult(
                name=real_name if real_name in described else name,
                topic_id=topic_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=_MESSAGE,
            )
    return denied
