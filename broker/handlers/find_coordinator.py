"""FindCoordinator (key 10), versions 0-6: the coordinator of a group or a transactional id.

A group (type 0) belongs to a partition of `__consumer_offsets`, a transactional id (type 1) to a
partition of `__transaction_state`; the leader of that partition is the coordinator. The first
request creates the topic, and waits for it. Share groups (type 2) are not supported: they get
INVALID_REQUEST, Kafka's error for a disabled type, which clients do not retry.

v1: key types, error messages, throttle time
v3: flexible
v4: several keys in one request (KIP-699)
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_topics import CreateTopicsRequest
from ...clients.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ...coordinator.offsets_topic import OFFSETS_TOPIC
from ...coordinator.transaction.transaction_config import transaction_topic
from ...replication.topic_names import TRANSACTION_STATE_TOPIC
from ...security.access import CLUSTER_ACTION, DESCRIBE, GROUP, TRANSACTIONAL_ID, access_of
from ...security.refusals import CLUSTER_DENIED
from ..request.active_controller import create_internal_topics
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_DENIED = {
    OFFSETS_TOPIC: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    TRANSACTION_STATE_TOPIC: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
_FIRST_WITH_SEVERAL = 4
_FIRST_WITH_SHARES = 6
_NO_NODE = -1
_CREATE_TIMEOUT_MS = 30_000


def handle(
    broker: BrokerContext, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Coroutine[object, object, FindCoordinatorResponse]:
    several = context.api_version >= _FIRST_WITH_SEVERAL
    keys = request.coordinator_keys if several else [request.key]
    access = access_of(broker, context)
    if request.key_type not in (_GROUP, _TRANSACTION):
        is_share = request.key_type == _SHARE and context.api_version >= _FIRST_WITH_SHARES
        # Coordinators of share groups are for brokers.
        if is_share and access is not None and not access.allows_cluster(CLUSTER_ACTION):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return _error_response(keys, several, code, CLUSTER_DENIED)
        what = "Share groups" if request.key_type == _SHARE else "Coordinators of this type"
        message = f"{what} are not supported by this broker."
        return _error_response(keys, several, ErrorCode.INVALID_REQUEST, message)
    topic = OFFSETS_TOPIC if request.key_type == _GROUP else TRANSACTION_STATE_TOPIC
    kind = GROUP if request.key_type == _GROUP else TRANSACTIONAL_ID
    denied = set[str]() if access is None else {*keys} - access.allowed(DESCRIBE, kind, keys)
    find = partial(_coordinator, broker, context, topic, denied)
    # The topic is not made for a client that may not know its coordinator.
    if topic in broker.controller.image.topics_by_name or denied.issuperset(keys):
        return _response(lazy_list(find, keys), several)
    return _create_then_respond(broker, context, topic, keys, find)


def _error_response(
    keys: list[str], several: bool, code: ErrorCode, message: str
) -> FindCoordinatorResponse:
    def refuse(key: str) -> Coordinator:
        return _none(key, code, message)

    return _response(lazy_list(refuse, keys), several)


async def _create_then_respond(
    broker: BrokerContext,
    context: RequestContext,
    name: str,
    keys: Sequence[str],
    find: Callable[[str], Coordinator],
) -> FindCoordinatorResponse:
    topic = (
        broker.group_coordinator.internal_topic(name)
        if name == OFFSETS_TOPIC
        else transaction_topic(broker.transaction_coordinator.config)
    )
    creation = CreateTopicsRequest(topics=[topic], timeout_ms=_CREATE_TIMEOUT_MS)
    # If the creation fails there is no leader, and the client gets a retriable error.
    await create_internal_topics(broker, context, creation)
    return _response(lazy_list(find, keys), context.api_version >= _FIRST_WITH_SEVERAL)


def _coordinator(
    broker: BrokerContext, context: RequestContext, topic: str, denied: Collection[str], key: str
) -> Coordinator:
    if key in denied:
        code, message = _DENIED[topic]
        # As in Kafka, which has no message for one of several.
        return _none(key, code, "" if context.api_version >= _FIRST_WITH_SEVERAL else message)
    image = broker.controller.image
    coordinator = (
        broker.group_coordinator if topic == OFFSETS_TOPIC else broker.transaction_coordinator
    )
    state = image.partition(topic, coordinator.partition_of(key))
    leader = None if state is None else image.brokers.get(state.leader)
    endpoint = None if leader is None else leader.endpoints.get(context.listener)
    if leader is None or leader.fenced or endpoint is None:
        missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _none(key, missing, "The coordinator is not available.")
    return Coordinator(
        key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _none(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=error, error_message=message
    )


def _response(coordinators: list[Coordinator], several: bool) -> FindCoordinatorResponse:
    if several:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        # Kafka returns NONE in these versions, and an empty message in later ones.
        error_message=only.error_message if only.error_code else "NONE",
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
