"""ConsumerGroupHeartbeat (key 68), versions 0-1: joins, stays in or leaves a consumer group.

KIP-848. The response is sent once the group's changes are in the log. The error is
UNSUPPORTED_VERSION if the consumer protocol is not enabled (`consumer_protocol.py`). A client that
may not describe a topic that it names is refused; of those that its regular expression matches, it
subscribes to what it may describe.

v0: the coordinator generates the id of a member that joins without one
v1: the member generates its id (KIP-1082), and may subscribe to a regular expression
"""

from functools import partial

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ...coordinator.consumer.consumer_heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from ...coordinator.consumer.consumer_records import by_topic
from ...security.access import DESCRIBE, GROUP, READ, TOPIC, Access, access_of
from ..request.consumer_protocol import serves_consumer_groups
from ..request.context import BrokerContext, Deferred, RequestContext

_FIRST_WITH_IDS_OF_MEMBERS = 1


def handle(
    broker: BrokerContext, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Deferred[HeartbeatAnswer | KafkaError]:
    if not serves_consumer_groups(broker):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    access = access_of(broker, context)
    denied = None if access is None else _denial(access, request)
    if denied is not None:
        return ConsumerGroupHeartbeatResponse(error_code=denied)
    owned = request.topic_partitions
    names = request.subscribed_topic_names
    heartbeat = ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if names is None else tuple(names),
        request.subscribed_topic_regex,
        request.server_assignor,
        None
        if owned is None
        else frozenset(
            (topic.topic_id, partition) for topic in owned for partition in topic.partitions
        ),
        context.client_id or "",
        f"/{context.client_host}",
        None if access is None else partial(access.allowed, DESCRIBE, TOPIC, audited=False),
    )
    is_ours = context.api_version < _FIRST_WITH_IDS_OF_MEMBERS
    answer = broker.group_coordinator.consumer_group_heartbeat(heartbeat, is_ours)
    if isinstance(answer, HeartbeatAnswer | KafkaError):
        return _response(answer)
    return Deferred(answer, _response)


def _denial(access: Access, request: ConsumerGroupHeartbeatRequest) -> ErrorCode | None:
    """Why the client may not be a member, if so: it must see every topic that it names."""
    if not access.allows(READ, GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    names = {*(request.subscribed_topic_names or ())}
    if access.allowed(DESCRIBE, TOPIC, names) != names:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None


def _response(answer: HeartbeatAnswer | KafkaError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(answer, KafkaError):
        return ConsumerGroupHeartbeatResponse(
            error_code=answer.code, error_message=answer.message or None
        )
    assigned = answer.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None
        if assigned is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic(assigned).items()
            ]
        ),
    )
